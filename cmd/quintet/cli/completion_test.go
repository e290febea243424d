package cli

import (
	"encoding/json"
	"runtime"
	"slices"
	"strings"
	"testing"

	"quintet.dev/quintet/cluster/owner"
)

// TestCompletion: the shell is told the words that fit.
func TestCompletion(t *testing.T) {
	dir := t.TempDir()
	self, err := owner.Self()
	if err != nil {
		t.Fatal(err)
	}
	if err := (state{dir}).save(entry{Name: "mine", InProcess: true, Owner: self}, nil); err != nil {
		t.Fatal(err)
	}
	t.Setenv("DOCKER_HOST", "unix:///nowhere/docker.sock") // the engine of this machine may have clusters
	for line, want := range map[string][]string{
		"up --with ":           {"metrics-server", "csi-driver", "device-driver", "registry"},
		"up --image kube-sch":  {"kube-scheduler="},
		"up --without core":    {"coredns"},
		"up --ip-family d":     {"dual"},
		"status --name m":      {"mine"},
		"images -o j":          {"json"},
		"version --output ":    {"json", "yaml"},
		"conformance list -o ": {"json", "yaml"},
	} {
		args := strings.Split(line, " ")
		code, out, errs := run(t.Context(), dir, append([]string{"__complete"}, args...)...)
		words := strings.Fields(out.String())
		for _, word := range want {
			if code != 0 || !slices.Contains(words, word) {
				t.Errorf("quintet %s: code %d, %q lacks %s\n%s", line, code, out, word, errs)
			}
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		code, out, _ := run(t.Context(), dir, "completion", shell)
		if code != 0 || !strings.Contains(out.String(), "quintet") {
			t.Errorf("completion %s: code %d", shell, code)
		}
	}
}

func TestVersion(t *testing.T) {
	code, out, _ := run(t.Context(), t.TempDir(), "version", "-o", "json")
	var v versions
	if err := json.Unmarshal([]byte(out.String()), &v); err != nil || code != 0 {
		t.Fatalf("code %d, %v, %s", code, err, out)
	}
	if v.Quintet == "" || !strings.HasPrefix(v.Kubernetes, "v1.36.") || v.Go != runtime.Version() || v.Commit == "" {
		t.Errorf("%+v", v)
	}
	code, out, _ = run(t.Context(), t.TempDir(), "--version")
	if want := "quintet version " + v.Quintet + " (Kubernetes " + v.Kubernetes + ")\n"; code != 0 || out.String() != want {
		t.Errorf("--version: code %d, %q, want %q", code, out, want)
	}
}
