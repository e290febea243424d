package e2e

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// TestByHand runs the blocks of docs/by-hand.md: components wired together without the harness.
func TestByHand(t *testing.T) {
	page, err := os.ReadFile("../docs/by-hand.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```bash\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(blocks) != 6 {
		t.Fatalf("the page has %d blocks of commands, want 6", len(blocks))
	}
	var up strings.Builder
	for _, block := range blocks[:5] {
		up.WriteString(block[1])
	}
	down := blocks[5][1]
	dir := t.TempDir()
	t.Cleanup(func() {
		if t.Failed() {
			for _, name := range []string{"etcd", "apiserver", "controller-manager", "scheduler", "routes", "node"} {
				out, _ := exec.Command("docker", "logs", "--tail=40", "by-hand-"+name).CombinedOutput()
				t.Logf("log of %s:\n%s", name, out)
			}
		}
		if out, err := bash(context.Background(), dir, down); err != nil {
			t.Errorf("the end: %v\n%s", err, out)
		}
	})
	out, err := bash(t.Context(), dir, up.String())
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	NewWithT(t).Expect(out).To(And(ContainSubstring("by proxy\n"), HaveSuffix("by hand\n")),
		"what a pod serves, and another's log")
}

func bash(ctx context.Context, dir, script string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", script)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}
