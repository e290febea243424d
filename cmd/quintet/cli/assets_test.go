package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The test binary is a file like quintet's; e2e/envtest runs what the program itself writes.
func TestAssets(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "it's new")
	assets := func(args ...string) {
		t.Helper()
		code, out, err := run(t.Context(), t.TempDir(), append([]string{"assets", dir}, args...)...)
		if want := "export KUBEBUILDER_ASSETS='" + strings.ReplaceAll(dir, "'", `'\''`) + "'\n"; code != 0 ||
			out.String() != want {
			t.Fatalf("code %d, %q, %s; want %q", code, out, err, want)
		}
	}
	assets("--controllers=*,-node-ipam-controller", "--controllers=namespace")
	names, err := controllersIn(dir)
	if got := strings.Join(names, " "); err != nil || got != "* -node-ipam-controller namespace" {
		t.Errorf("controllers %q, %v", got, err)
	}
	older, err := os.Stat(filepath.Join(dir, "etcd"))
	if err != nil {
		t.Fatal(err)
	}

	assets() // once more, over it
	if names, err := controllersIn(dir); err != nil || len(names) > 0 {
		t.Errorf("controllers %q, %v; none were asked for", names, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil || info.Mode().Perm()&0o555 != 0o555 {
			t.Errorf("%s can't be run: %v, %v", entry.Name(), info, err)
		}
		if os.SameFile(info, older) {
			t.Errorf("%s is the file that was there before: who runs it would see it change", entry.Name())
		}
		found = append(found, entry.Name())
		if calledAs(filepath.Join(dir, entry.Name())) == nil {
			t.Errorf("%s is none of the programs that quintet is", entry.Name())
		}
	}
	if got := strings.Join(found, " "); got != "etcd kube-apiserver kubectl" {
		t.Errorf("the folder holds %s", got)
	}
	if calledAs("bin/quintet") != nil {
		t.Error("quintet is not quintet")
	}
}

func TestAssetsNameMistakes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, test := range []struct {
		args []string
		want string
	}{
		{nil, "want DIR, got nothing"},
		{[]string{dir, dir}, "want DIR, got "},
		{[]string{file}, "not a directory"},
		{[]string{dir, "--controllers=garbage-man"}, `"garbage-man"`},
	} {
		code, _, err := run(t.Context(), dir, append([]string{"assets"}, test.args...)...)
		if code != 1 || !strings.Contains(err.String(), test.want) {
			t.Errorf("%v: code %d, %q; want it to name %q", test.args, code, err, test.want)
		}
	}
}

// A program next to quintet is used only if it is the named one, of the same build.
func TestSameBuild(t *testing.T) {
	dir := t.TempDir()
	pause := filepath.Join(dir, "pause")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", pause,
		"quintet.dev/quintet/cmd/pause")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("no program"), 0o700); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		file, name string
		want       bool
	}{
		{pause, "pause", true},
		{pause, "etcd", false},
		{text, "pause", false},
		{self, "quintet", false}, // a test of it
		{filepath.Join(dir, "absent"), "pause", false},
	} {
		if got := sameBuild(test.file, test.name); got != test.want {
			t.Errorf("%s as %s: %v", filepath.Base(test.file), test.name, got)
		}
	}
}
