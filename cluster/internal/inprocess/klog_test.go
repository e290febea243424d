package inprocess

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"k8s.io/klog/v2"
)

func TestQuiet(t *testing.T) {
	var out bytes.Buffer
	for _, line := range []string{
		"I1128 12:45:42.917228    6173 apf_controller.go:377] Starting API Priority and Fairness config controller\n",
		"W1128 12:45:42.917228    6173 apf_controller.go:731] Ignoring PriorityLevelConfiguration\n",
		"I1128 12:45:42.917228    6173 other.go:1] at apf_controller.go:377\n",
		"E1128 12:45:42.917228    6173 other.go:1] klog writes it to stderr by itself\n",
	} {
		if n, err := (quiet{&out}).Write([]byte(line)); n != len(line) || err != nil {
			t.Errorf("%q: %d, %v", line, n, err)
		}
	}
	if got := out.String(); strings.Count(got, "\n") != 2 || !strings.HasPrefix(got, "W") ||
		!strings.Contains(got, "other.go:1] at") {
		t.Errorf("%q", got)
	}
}

// TestQuietKlog: what others log still comes to stderr, once.
func TestQuietKlog(t *testing.T) {
	if os.Getenv("QUIET_KLOG") != "" {
		quietKlog()
		klog.Info("an info")
		klog.Warning("a warning")
		klog.Error("an error")
		klog.Flush()
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestQuietKlog$")
	cmd.Env = append(os.Environ(), "QUIET_KLOG=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	for _, text := range []string{"] an info", "] a warning", "] an error"} {
		if strings.Count(stderr.String(), text) != 1 {
			t.Errorf("%q is not there once: %s", text, stderr.String())
		}
	}
}
