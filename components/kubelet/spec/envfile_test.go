package spec

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/kubelet/runtime"
	"quintet.dev/quintet/components/kubelet/volumes"
)

func TestLookUpEnvFile(t *testing.T) {
	for name, test := range map[string]struct{ text, key, want, fails string }{
		"quoted":             {"A='one two'\nB='x=y'\n", "B", "x=y", ""},
		"as it is":           {`A='$HOME \n "x" #'`, "A", `$HOME \n "x" #`, ""},
		"indented":           {" \tA='1'", "A", "1", ""},
		"comments":           {"# A='0'\n\n  # x\nA='1' # one\n", "A", "1", ""},
		"many lines":         {"A='1\n\n 2'\nB='3'\n", "A", "1\n\n 2", ""},
		"after many lines":   {"A='1\n2'\nB='3'\n", "B", "3", ""},
		"lines of Windows":   {"A='1\r\n2'\r\nB='3'\r\n", "A", "1\n2", ""},
		"space after =":      {"A= '1'\nB='2'", "A", "", ""},
		"first wins":         {"A='1'\nA='2'", "A", "1", ""},
		"absent":             {"A='1'", "B", "", ""},
		"faults further on":  {"A='1'\nB", "A", "1", ""},
		"no =":               {"A='1'\nB", "C", "", "at line 2: missing '='"},
		"no name":            {"='1'", "A", "", "at line 1: empty variable name"},
		"space before =":     {"A ='1'", "A", "", "whitespace before '='"},
		"no quotes":          {"A=1", "A", "", "must be enclosed in single quotes"},
		"nothing":            {"A=", "A", "", "must be enclosed in single quotes"},
		"text after quotes":  {"A='1'2", "A", "", "unexpected content after closing quote"},
		"quotes stay open":   {"A='1\n2\n", "A", "", "at line 1: unclosed single quote"},
		"fault before value": {"A=\"1\"\nB='2'", "B", "", "at line 1"},
	} {
		got, err := lookUpEnvFile(test.text, test.key)
		if got != test.want || (err == nil) != (test.fails == "") || err != nil &&
			!strings.Contains(err.Error(), test.fails) {
			t.Errorf("%s: %q, %v; want %q, %q", name, got, err, test.want, test.fails)
		}
	}
}

func TestVariablesFromFiles(t *testing.T) {
	volume := t.TempDir()
	if err := os.WriteFile(filepath.Join(volume, "env"), []byte("A='one two'\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(secret, []byte("A='stolen'\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, filepath.Join(volume, "link")); err != nil {
		t.Fatal(err)
	}
	yes := true
	for name, test := range map[string]struct {
		ref         v1.FileKeySelector
		want, fails string
	}{
		"there":             {v1.FileKeySelector{VolumeName: "v", Path: "env", Key: "A"}, "X=one two", ""},
		"optional, no key":  {v1.FileKeySelector{VolumeName: "v", Path: "env", Key: "B", Optional: &yes}, "", ""},
		"optional, no file": {v1.FileKeySelector{VolumeName: "v", Path: "no", Key: "A", Optional: &yes}, "", ""},
		"no key": {v1.FileKeySelector{VolumeName: "v", Path: "env", Key: "B"}, "",
			`key "B" not found in file "env"`},
		"no file":               {v1.FileKeySelector{VolumeName: "v", Path: "no", Key: "A"}, "", `"no" of volume "v"`},
		"no volume":             {v1.FileKeySelector{VolumeName: "w", Path: "env", Key: "A"}, "", `the volume "w"`},
		"a link out of the way": {v1.FileKeySelector{VolumeName: "v", Path: "link", Key: "A"}, "", "escapes"},
	} {
		p := pod(v1.Container{Env: []v1.EnvVar{{Name: "X", ValueFrom: &v1.EnvVarSource{FileKeyRef: &test.ref}}}})
		s, err := builder(t).Container(t.Context(), &Request{
			Pod: p, Container: &p.Spec.Containers[0], Sandbox: &runtime.Sandbox{ID: "s"},
			Volumes: map[string]volumes.Mounted{"v": {Path: volume}},
		})
		if (err == nil) != (test.fails == "") || err != nil && !strings.Contains(err.Error(), test.fails) {
			t.Errorf("%s: %v, want %q", name, err, test.fails)
			continue
		}
		if err != nil {
			continue
		}
		set := slices.ContainsFunc(s.Env, func(e string) bool { return strings.HasPrefix(e, "X=") })
		if test.want != "" && !slices.Contains(s.Env, test.want) || set != (test.want != "") {
			t.Errorf("%s: %v", name, s.Env)
		}
	}
}
