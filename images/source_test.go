package images

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"golang.org/x/mod/module"
	modzip "golang.org/x/mod/zip"
)

// checkout writes what looks like a checkout of this module and returns its folder.
func checkout(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"go.mod": "module " + Module + "\n\ngo 1.26.0\n\nrequire k8s.io/api v0.36.6\n", "cmd/etcd/main.go": "package main\n",
		"components/dns/go.mod":                "module " + Module + "/components/dns\n\ngo 1.26.0\n",
		"components/dns/cmd/coredns/main.go":   "package main\n",
		"components/registry/go.mod":           "module " + Module + "/components/registry\n\ngo 1.26.0\n",
		"components/registry/registry.go":      "package registry\n",
		"images/Dockerfile":                    "FROM scratch AS etcd\nCOPY etcd /\n",
		"examples/go.mod":                      "module example.com/tests\n",
		"components/registry/registry_test.go": "package registry\n",
	} {
		write(t, filepath.Join(dir, name), content)
	}
	return dir
}

func write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestSourceNamed: the folder that the environment names comes first, and is an error if it is no checkout.
func TestSourceNamed(t *testing.T) {
	dir := checkout(t)
	t.Setenv(EnvSource, dir)
	s, err := FindSource(t.Context())
	if err != nil || s.Version != "" || s.String() != dir {
		t.Fatalf("%v, %v", s, err)
	}
	for program, want := range map[string]string{"etcd": ".", "coredns": "components/dns"} {
		if place, err := s.placeOf(program); err != nil || place != want {
			t.Errorf("%s is in %s, %v", program, place, err)
		}
	}
	if stamps, err := s.stamps(t.Context()); err != nil || !strings.Contains(stamps, ".gitVersion=v1.36.6") ||
		!strings.Contains(stamps, ".gitCommit=unknown") {
		t.Errorf("%s, %v", stamps, err)
	}
	if err := os.Remove(filepath.Join(dir, "components/dns/go.mod")); err != nil {
		t.Fatal(err)
	}
	if _, err := FindSource(t.Context()); err == nil || !strings.Contains(err.Error(), EnvSource) {
		t.Errorf("%v", err)
	}
}

// TestFingerprint: it follows what programs are built from, and nothing else.
func TestFingerprint(t *testing.T) {
	dir := checkout(t)
	s, err := folder(dir)
	if err != nil {
		t.Fatal(err)
	}
	current := func() string {
		got, err := s.fingerprint()
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	before := current()
	for _, file := range []string{"cmd/etcd/main_test.go", "README.md", "bin/etcd", "_output/x", "examples/a.go",
		"components/dns/testdata/x"} {
		write(t, filepath.Join(dir, file), "changed")
		if current() != before {
			t.Errorf("%s changes the fingerprint", file)
		}
	}
	for _, file := range []string{"cmd/etcd/main.go", "components/dns/go.mod", "images/Dockerfile", "cmd/new/data.json"} {
		write(t, filepath.Join(dir, file), "changed")
		after := current()
		if after == before {
			t.Errorf("%s does not change the fingerprint", file)
		}
		before = after
	}
}

// TestSourceOfRelease: of a release, the modules that its zip leaves out are downloaded beside it.
func TestSourceOfRelease(t *testing.T) {
	const version = "v0.1.0"
	proxy, dir := t.TempDir(), checkout(t)
	for _, path := range []string{Module, Module + "/components/dns", Module + "/components/registry"} {
		publish(t, proxy, path, version, filepath.Join(dir, strings.TrimPrefix(path, Module)))
	}
	t.Setenv("GOPROXY", "file://"+filepath.ToSlash(proxy))
	t.Setenv("GONOSUMDB", Module)
	t.Setenv("GONOSUMCHECK", "1")
	t.Setenv("GOFLAGS", "-modcacherw") // so that the test can remove it; the source asks without
	cache := t.TempDir()
	t.Setenv("GOMODCACHE", cache)
	t.Cleanup(func() { writable(t, cache) })
	s, err := download(t.Context(), version)
	if err != nil {
		t.Fatal(err)
	}
	if s.String() != Module+"@"+version {
		t.Errorf("%s", s)
	}
	for program, want := range map[string]string{"etcd": ".", "coredns": "components/dns"} {
		if place, err := s.placeOf(program); err != nil || place != want {
			t.Errorf("%s is in %s, %v", program, place, err)
		}
	}
	again, err := located(t.Context(), s.dirs["."])
	if err != nil || again.Version != version {
		t.Errorf("the module in the cache: %v, %v", again, err)
	}
	if _, err := download(t.Context(), "v0.2.0"); err == nil {
		t.Error("a release that does not exist is found")
	}
}

// publish puts a module into a proxy that is a folder.
func publish(t *testing.T, proxy, path, version, dir string) {
	t.Helper()
	base := filepath.Join(proxy, filepath.FromSlash(path), "@v", version)
	gomod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, base+".mod", string(gomod))
	write(t, base+".info", `{"Version":"`+version+`","Time":"2026-01-01T00:00:00Z"}`)
	file, err := os.Create(base + ".zip")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := modzip.CreateFromDir(file, module.Version{Path: path, Version: version}, dir); err != nil {
		t.Fatal(err)
	}
}

// writable makes the folders of a module cache such that they can be removed.
func writable(t *testing.T, dir string) {
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			err = os.Chmod(path, 0o755)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestBuiltFrom(t *testing.T) {
	dep := func(version string, replace *debug.Module) *debug.BuildInfo {
		return &debug.BuildInfo{Deps: []*debug.Module{{Path: Module, Version: version, Replace: replace}}}
	}
	for name, test := range map[string]struct {
		info *debug.BuildInfo
		want string
	}{
		"required":   {dep("v0.3.0", nil), "v0.3.0"},
		"replaced":   {dep("v0.3.0", &debug.Module{Path: "../quintet"}), ""},
		"installed":  {&debug.BuildInfo{Main: debug.Module{Path: Module, Version: "v0.3.0"}}, "v0.3.0"},
		"a checkout": {&debug.BuildInfo{Main: debug.Module{Path: Module, Version: "(devel)"}}, ""},
		"changed":    {&debug.BuildInfo{Main: debug.Module{Path: Module, Version: "v0.3.1-0.2026-abc+dirty"}}, ""},
		"elsewhere":  {&debug.BuildInfo{Main: debug.Module{Path: "example.com/m", Version: "v1.0.0"}}, ""},
	} {
		if got := builtFrom(test.info); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
