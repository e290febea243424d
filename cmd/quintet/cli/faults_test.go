package cli

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
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

// TestShrinkFaults: the command runs by the whole plan first and without faults next. One that fails then, too, is an
// error and blames no rule.
func TestShrinkFaults(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	plan := faults.Plan{Seed: 9, Rules: []faults.Rule{{Name: "first", Fault: faults.Fault{Status: 503}},
		{Name: "second", Fault: faults.Fault{Status: 409}}}}
	const shrunk = "rules:\n- fault:\n    status: 409\n  match: {}\n  name: second\nseed: 9\n"
	for name, c := range map[string]struct{ command, out, err string }{
		"by a fault":       {`echo >>$RUNS; test $(wc -l <$RUNS) = 2`, shrunk, ""},
		"without faults":   {"exit 3", "", "the command fails without any fault; there is nothing to shrink"},
		"not by this plan": {"exit 0", "", "the command does not fail by this plan and seed: nothing to shrink"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("RUNS", filepath.Join(t.TempDir(), "runs"))
			var out, notes bytes.Buffer
			a := &app{out: &out, err: &notes}
			err := a.shrinkFaults(t.Context(), faultFlags{user: "me"}, plan, &rest.Config{Host: server.URL},
				[]string{"sh", "-c", c.command})
			if got := fmt.Sprint(err); got != cmp.Or(c.err, "<nil>") {
				t.Errorf("the error is %s", got)
			}
			if out.String() != c.out {
				t.Errorf("the plan is\n%s\nafter\n%s", out.String(), notes.String())
			}
		})
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
