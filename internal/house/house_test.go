// Package house checks the rules of the house over the tree's imports and files.
package house

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "quintet.dev/quintet"

// longest is how long a written file may be, in lines. One that is longer says why in a comment with "Long because".
const longest = 450

// file is one Go file: its folder relative to the module's root, and what it imports.
type file struct {
	path, dir string
	imports   []string
	test      bool
	generated bool
	lines     int
	reason    bool
}

func files(t *testing.T) []file {
	t.Helper()
	root := filepath.Join("..", "..")
	var out []file
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if base := entry.Name(); name != root &&
				(strings.HasPrefix(base, ".") || base == "_output" || base == "bin" || base == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		f, err := read(root, name)
		out = append(out, f)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 20 {
		t.Fatalf("found only %d files: is this the module's root?", len(out))
	}
	return out
}

func read(root, name string) (file, error) {
	content, err := os.ReadFile(name)
	if err != nil {
		return file{}, err
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), name, content, parser.ImportsOnly)
	if err != nil {
		return file{}, err
	}
	relative, err := filepath.Rel(root, name)
	if err != nil {
		return file{}, err
	}
	f := file{
		path:      filepath.ToSlash(relative),
		dir:       path.Dir(filepath.ToSlash(relative)),
		test:      strings.HasSuffix(name, "_test.go"),
		generated: slices.Contains(strings.Split(filepath.ToSlash(relative), "/"), "generated"),
		lines:     bytes.Count(content, []byte("\n")),
		reason:    bytes.Contains(content, []byte("Long because")),
	}
	for _, spec := range parsed.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return file{}, err
		}
		f.imports = append(f.imports, imported)
	}
	return f, nil
}

func within(dir, parent string) bool { return dir == parent || strings.HasPrefix(dir, parent+"/") }

// component returns the component that a folder belongs to, or "".
func component(dir string) string {
	rest, ok := strings.CutPrefix(dir, "components/")
	if !ok {
		return ""
	}
	name, _, _ := strings.Cut(rest, "/")
	return name
}

func TestComponentsStandAlone(t *testing.T) {
	for _, f := range files(t) {
		own := component(f.dir)
		if own == "" {
			continue
		}
		for _, imported := range f.imports {
			dir, ok := strings.CutPrefix(imported, module+"/")
			if !ok {
				continue
			}
			if other := component(dir); other != "" && other != own {
				t.Errorf("%s: component %s imports component %s", f.path, own, other)
			}
			for _, outside := range []string{"cluster", "conformance", "e2e", "bench", "cmd"} {
				if within(dir, outside) {
					t.Errorf("%s: a component imports %s", f.path, dir)
				}
			}
		}
	}
}

// TestAnyClusterIsServed: what works on any cluster knows nothing of Quintet. Its tests may compare with golden
// files as all others do.
func TestAnyClusterIsServed(t *testing.T) {
	const golden = "internal/golden"
	for _, f := range files(t) {
		for _, own := range []string{"conformance", "why", "score"} {
			for _, imported := range f.imports {
				dir, ok := strings.CutPrefix(imported, module+"/")
				if strings.HasSuffix(f.path, "_test.go") && dir == golden {
					continue
				}
				if within(f.dir, own) && ok && !within(dir, own) {
					t.Errorf("%s imports %s", f.path, dir)
				}
			}
		}
	}
}

// TestAnyClusterIsNamed: the suite names no program, image, label or annotation of Quintet, so that it can't tell it
// from another cluster. Its own test image and the domain of its labels and documents are not that.
func TestAnyClusterIsNamed(t *testing.T) {
	// what the suite brings along: its own names, the test image, and the device driver for tests, which any cluster can
	// run
	allowed := regexp.MustCompile(
		`QUINTET_(DEVICES|CDI_|CLAIM_)|/dev/quintet|quintet\.dev/quintet/|conformance\.quintet\.dev|quintet/testimage:dev|quintet\.invalid|` +
			`quintet\.dev/(device|accelerator)|device\.quintet\.dev|/etc/quintet/devices`,
	)
	for _, f := range files(t) {
		if f.test || !within(f.dir, "conformance") {
			continue
		}
		content, err := os.ReadFile(filepath.Join("..", "..", f.path))
		if err != nil {
			t.Fatal(err)
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, f.path, content, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			literal, ok := n.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return true
			}
			for _, name := range []string{"quintet", "hollow"} {
				if strings.Contains(strings.ToLower(allowed.ReplaceAllString(literal.Value, "")), name) {
					t.Errorf("%s: the suite knows %s", set.Position(literal.Pos()), literal.Value)
				}
			}
			return true
		})
	}
}

func TestOneRoomHoldsEachClient(t *testing.T) {
	rooms := map[string][]string{ // import prefix: the folders that may use it
		"go.etcd.io/etcd/client/v3": {"components/apiserver/storage/etcd", "components/etcd", "cluster", "bench", "e2e"},
		"go.etcd.io/etcd/server/v3": {"components/etcd", "cmd/etcd",
			"components/apiserver/storage/etcdtest"},
		"github.com/moby/moby": {"components/kubelet/runtime/docker", "cluster", "images", "bench",
			"e2e"},
		"k8s.io/cri-api":                              {"components/kubelet/runtime/cri"},
		"github.com/containerd/containerd":            {"components/kubelet/runtime/cri"},
		"github.com/testcontainers/testcontainers-go": {"cluster"},
	}
	for _, f := range files(t) {
		for _, imported := range f.imports {
			for client, allowed := range rooms {
				if !within(imported, client) ||
					slices.ContainsFunc(allowed, func(room string) bool { return within(f.dir, room) }) {
					continue
				}
				if f.test && client == "go.etcd.io/etcd/server/v3" && within(f.dir, "components/apiserver") {
					continue // its tests configure and look into a real etcd
				}
				t.Errorf("%s imports %s, which belongs to %v", f.path, imported, allowed)
			}
		}
	}
}

// TestSupportStaysInTests: no program has in it what exists for tests, a package called <what>test.
func TestSupportStaysInTests(t *testing.T) {
	support := func(dir string) bool { return strings.HasSuffix(path.Base(dir), "test") }
	for _, f := range files(t) {
		if f.test || support(f.dir) {
			continue
		}
		for _, imported := range f.imports {
			if dir, ok := strings.CutPrefix(imported, module+"/"); ok && support(dir) {
				t.Errorf("%s imports %s, which is for tests", f.path, dir)
			}
		}
	}
}

// TestMainsAloneBeginEarly: what a program's start sets for the whole process is no library's to set.
func TestMainsAloneBeginEarly(t *testing.T) {
	for _, f := range files(t) {
		isMain := path.Base(f.path) == "main.go" && path.Dir(f.dir) == "cmd"
		if slices.Contains(f.imports, module+"/internal/footprint/early") && !isMain {
			t.Errorf("%s paces every program that it is linked into", f.path)
		}
	}
}

func TestNothingWrapsUpstream(t *testing.T) {
	policies := []string{ // that lie next to the generic server, and are useful without it
		"k8s.io/apiserver/pkg/server/filters",        // the queueing of requests
		"k8s.io/apiserver/pkg/server/mux",            // how flow control shows its queues
		"k8s.io/apiserver/pkg/server/egressselector", // dialing through proxies
		"k8s.io/apiserver/pkg/server/options/encryptionconfig",
		"k8s.io/apiserver/pkg/server/options/encryptionconfig/controller",
		"k8s.io/apiserver/pkg/server/options/encryptionconfig/metrics", // which configurations are in force
		"k8s.io/apiserver/pkg/server/options/authenticationconfig/metrics",
		"k8s.io/apiserver/pkg/server/options/authorizationconfig/metrics",
	}
	for _, f := range files(t) {
		for _, imported := range f.imports {
			for _, whole := range []string{"k8s.io/kubernetes", "k8s.io/apiserver/pkg/server",
				"k8s.io/apiserver/pkg/registry", "k8s.io/apiserver/pkg/endpoints/handlers", "k8s.io/apiserver/pkg/storage/cacher"} {
				if within(imported, whole) && !slices.Contains(policies, imported) {
					t.Errorf("%s imports %s: the components are written here", f.path, imported)
				}
			}
		}
	}
}

func TestNamesAndLengths(t *testing.T) {
	for _, f := range files(t) {
		for _, part := range strings.Split(f.dir, "/") {
			switch part {
			case "util", "utils", "common", "helpers", "misc":
				t.Errorf("%s: %q says nothing about what is in it", f.path, part)
			}
		}
		if !f.generated && !f.test && f.lines > longest && !f.reason {
			t.Errorf("%s has %d lines, more than %d", f.path, f.lines, longest)
		}
	}
}

func TestMainFilesAreTiny(t *testing.T) {
	for _, f := range files(t) {
		if within(f.dir, "cmd") && path.Base(f.path) == "main.go" && f.lines > 45 {
			t.Errorf("%s has %d lines: a program is flags, Config, Run", f.path, f.lines)
		}
	}
}
