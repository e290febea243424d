package cgroups

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// TestRemoveKillsWhatIsLeft: a process in a group below the pod's, which no engine knows of, is killed, and the group
// goes when it is empty.
func TestRemoveKillsWhatIsLeft(t *testing.T) {
	tree := Tree{Mount: t.TempDir()}
	if err := os.WriteFile(filepath.Join(tree.Mount, "cgroup.controllers"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	left := exec.CommandContext(t.Context(), "sleep", "60")
	if err := left.Start(); err != nil {
		t.Fatal(err)
	}
	group := filepath.Join(tree.hierarchies()[0], tree.Parent("u", v1.PodQOSBurstable))
	container := filepath.Join(group, "container")
	if err := os.MkdirAll(container, 0o755); err != nil {
		t.Fatal(err)
	}
	processes := filepath.Join(container, "cgroup.procs")
	if err := os.WriteFile(processes, []byte("0\n1\n"+strconv.Itoa(left.Process.Pid)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := tree.Remove("u"); err == nil { // the file keeps the directory, as a process that ends keeps a group
		t.Error("a group that is busy was removed")
	}
	if err := left.Wait(); err == nil || left.ProcessState.ExitCode() != -1 {
		t.Errorf("the process was not killed: %v", err)
	}
	if err := os.Remove(processes); err != nil {
		t.Fatal(err)
	}
	if err := tree.Remove("u"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(group); !os.IsNotExist(err) {
		t.Errorf("the group is there: %v", err)
	}
}
