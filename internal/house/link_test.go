package house

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// makefileFlags are those with which the Makefile builds programs and tests.
var makefileFlags = regexp.MustCompile(`(?m)^export GOFLAGS \?= (.*)$`)

// TestImagesShareFlags: what is built for images comes out of the cache that the Makefile fills, and is the same.
func TestImagesShareFlags(t *testing.T) {
	code, err := os.ReadFile(filepath.Join("..", "..", "images", "programs.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, flag := range flags(t) {
		if !strings.Contains(string(code), `"`+flag+`"`) {
			t.Errorf("images are built without %s", flag)
		}
	}
}

// TestUnusedMethodsAreDropped: golang.org/x/net/trace has templates, which call methods by name, so that the linker
// keeps all methods of all types: half as much code again. gRPC imports it unless a build tag tells it not to.
func TestUnusedMethodsAreDropped(t *testing.T) {
	list := exec.CommandContext(t.Context(), "go", "list", "-f", "{{join .Imports \"\\n\"}}", "google.golang.org/grpc")
	list.Env = append(os.Environ(), "GOFLAGS="+strings.Join(flags(t), " "))
	imports, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	if slices.Contains(strings.Fields(string(imports)), "golang.org/x/net/trace") {
		t.Error("gRPC imports golang.org/x/net/trace")
	}
}

func flags(t *testing.T) []string {
	t.Helper()
	makefile, err := os.ReadFile(filepath.Join("..", "..", "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	found := makefileFlags.FindSubmatch(makefile)
	if found == nil {
		t.Fatal("the Makefile sets no flags")
	}
	return strings.Fields(string(found[1]))
}
