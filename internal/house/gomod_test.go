package house

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/mod/modfile"
)

// TestModuleCanBeInstalled: go install of a version refuses a module that replaces or excludes others
// (https://go.dev/ref/mod#go-install).
func TestModuleCanBeInstalled(t *testing.T) {
	name := filepath.Join("..", "..", "go.mod")
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	file, err := modfile.Parse(name, text, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range file.Replace {
		t.Errorf("%s: replace of %s", name, r.Old)
	}
	for _, e := range file.Exclude {
		t.Errorf("%s: exclude of %s", name, e.Mod)
	}
}
