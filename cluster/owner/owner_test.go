package owner

import (
	"strings"
	"testing"
)

func TestOwners(t *testing.T) {
	self, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	prefix, err := ownerPrefix()
	if err != nil {
		t.Fatal(err)
	}
	for owner, want := range map[string]bool{
		self:                        false,
		"user":                      false,
		"":                          false,
		"other-boot/pid:[1]/1/1":    false, // can't be checked from here
		prefix + "/1/0":             true,  // the number lives, but as another process
		prefix + "/4194305/1":       true,  // above the largest process number
		prefix + "/not-a-number/12": false,
	} {
		if got := Dead(owner); got != want {
			t.Errorf("Dead(%q) = %v, want %v", owner, got, want)
		}
	}
}

func TestTags(t *testing.T) {
	self, err := Tag()
	if err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(self, "/-[]: ") {
		t.Errorf("%q can't be a part of a file's name", self)
	}
	boot, _, _ := strings.Cut(self, "_")
	for tag, want := range map[string]bool{
		self:                false,
		"":                  false,
		"otherboot_1_1":     false,
		boot + "_1_0":       true,
		boot + "_4194305_1": true,
		boot + "_1":         false,
	} {
		if got := DeadTag(tag); got != want {
			t.Errorf("DeadTag(%q) = %v, want %v", tag, got, want)
		}
	}
}
