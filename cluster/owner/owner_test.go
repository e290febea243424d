package owner

import "testing"

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
