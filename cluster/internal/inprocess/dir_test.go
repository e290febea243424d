package inprocess

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestStaleDirs: what a process that was killed left is removed; what is of this process, or has no owner, stays.
func TestStaleDirs(t *testing.T) {
	const child = "QUINTET_TEST_LEAVES_DIR"
	if parent := os.Getenv(child); parent != "" {
		if _, err := makeDir(parent, "killed"); err != nil {
			t.Fatal(err)
		}
		self, _ := os.FindProcess(os.Getpid())
		_ = self.Kill()
		select {}
	}
	parent := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestStaleDirs$")
	cmd.Env = append(os.Environ(), child+"="+parent)
	if err := cmd.Run(); err == nil {
		t.Fatal("the other process was not killed")
	}
	left := func() int {
		dirs, _ := filepath.Glob(filepath.Join(parent, dirPrefix+"*"))
		return len(dirs)
	}
	if left() != 1 {
		t.Fatalf("%d folders are left", left())
	}
	if _, err := makeDir(parent, "own"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(parent, dirPrefix+"other"), 0o700); err != nil {
		t.Fatal(err)
	}
	removeStale(parent)
	if left() != 2 {
		t.Errorf("%d folders, want this process's and the one without an owner", left())
	}
}
