package cli

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"quintet.dev/quintet/faults"
)

// TestRunDisturbed: the command reaches the server through the proxy, its exit code and the log are kept, and nothing
// is left in the temporary folder.
func TestRunDisturbed(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	log := filepath.Join(t.TempDir(), "log.json")
	var out, notes bytes.Buffer
	a := &app{out: &out, err: &notes}
	err := a.runDisturbed(t.Context(), faultFlags{user: "me", log: log}, faults.Plan{Seed: 9},
		&rest.Config{Host: server.URL}, []string{"sh", "-c", "cat $KUBECONFIG; exit 3"})
	var exit exitError
	if !errors.As(err, &exit) || exit != 3 {
		t.Errorf("the exit code: %v", err)
	}
	if !strings.Contains(out.String(), "server: https://127.0.0.1:") || strings.Contains(out.String(), server.URL) {
		t.Errorf("the command's cluster is\n%s", out.String())
	}
	if !strings.Contains(notes.String(), "seed 9, 0 requests disturbed") ||
		!strings.Contains(notes.String(), "no request of the command came through") {
		t.Errorf("the note is %s", notes.String())
	}
	if text, err := os.ReadFile(log); err != nil || strings.TrimSpace(string(text)) != "[]" {
		t.Errorf("the log is %s, %v", text, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestReadPlanNamesItsFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "plan.yaml")
	if err := os.WriteFile(file, []byte("rules: [{fault: {}}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readPlan(file); err == nil || !strings.Contains(err.Error(), "plan.yaml:1: rules[0].fault") {
		t.Errorf("got %v", err)
	}
}
