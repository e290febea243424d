package cluster_test

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"quintet.dev/quintet/cluster"
)

// TestNothingOnStderr: the life of a cluster in process writes nothing of its own to the stderr of its process.
func TestNothingOnStderr(t *testing.T) {
	if os.Getenv("QUINTET_TEST_STDERR") != "" {
		c, err := cluster.Start(t.Context(), cluster.InProcess(), cluster.WithNodes(2))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestNothingOnStderr$")
	cmd.Env = append(os.Environ(), "QUINTET_TEST_STDERR=1")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Errorf("%v: %s; stderr:\n%s", err, stdout.String(), stderr.String())
	}
	for line := range strings.Lines(stderr.String()) {
		if !told(line) {
			t.Errorf("on stderr: %s", line)
		}
	}
}

// told tells that a line is one that klog's global functions write, whose outputs are the process's own: that priority
// and fairness runs, of which its library has no logger.
func told(line string) bool {
	return strings.HasPrefix(line, "I") && strings.Contains(line, " apf_controller.go:")
}
