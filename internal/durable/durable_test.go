package durable

import (
	"os"
	"path/filepath"
	"testing"
)

// TestReplaceFile: the file has the new contents and mode, also where a crash left a part of an earlier one, and
// nothing is left beside it; a failure leaves the old contents.
func TestReplaceFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	if err := os.WriteFile(path+Suffix, []byte("a part of something longer"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, contents := range []string{"first", "second"} {
		if err := ReplaceFile(path, []byte(contents), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != contents {
			t.Errorf("%q, %v", got, err)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if _, err := os.Stat(path + Suffix); !os.IsNotExist(err) {
		t.Errorf("left beside it: %v", err)
	}
	if err := os.Mkdir(path+Suffix, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := ReplaceFile(path, []byte("third"), 0o600); err == nil {
		t.Error("a file is written over a directory")
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "second" {
		t.Errorf("after a failure: %q, %v", got, err)
	}
}
