package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// buildPrograms builds static programs of the tree into a folder of the test and returns it.
func buildPrograms(t *testing.T, packages ...string) (string, error) {
	dir := t.TempDir()
	args := append([]string{"build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", dir + "/"}, packages...)
	build := exec.CommandContext(t.Context(), "go", args...)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return dir, nil
}

// kubectl is upstream's, as quintet has it in it, for one cluster.
type kubectl struct {
	w       *world
	program string
	config  string
}

// kubectlFor makes the quintet of a folder the kubectl of a cluster.
func (w *world) kubectlFor(dir string) *kubectl {
	w.t.Helper()
	k := &kubectl{w: w, program: filepath.Join(dir, "kubectl"), config: filepath.Join(w.t.TempDir(), "kubeconfig")}
	w.must(os.Symlink("quintet", k.program), "call quintet kubectl")
	w.must(os.WriteFile(k.config, w.Kubeconfig(), 0o600), "write the kubeconfig")
	return k
}

// try runs kubectl with an input; the error holds its output.
func (k *kubectl) try(stdin string, args ...string) (string, error) {
	command := exec.CommandContext(k.w.t.Context(), k.program, append([]string{"--kubeconfig", k.config}, args...)...)
	var out, errs bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = strings.NewReader(stdin), &out, &errs
	if err := command.Run(); err != nil {
		return out.String(), fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args, " "), err, &errs)
	}
	return out.String(), nil
}

// run is try for a command that must succeed.
func (k *kubectl) run(args ...string) string {
	k.w.t.Helper()
	out, err := k.try("", args...)
	k.w.must(err, "run kubectl")
	return out
}

// trying returns try without an input as a function, for Eventually.
func (k *kubectl) trying(args ...string) func() (string, error) {
	return func() (string, error) { return k.try("", args...) }
}
