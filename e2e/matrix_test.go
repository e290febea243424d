package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"quintet.dev/quintet/conformance/matrix"
	"quintet.dev/quintet/conformance/report"
)

// TestSwapMatrix swaps the scheduler for a program that does nothing, in containers and in process: the matrix shows
// that it breaks the scheduler's case and no other, and nothing of its cells is left.
func TestSwapMatrix(t *testing.T) {
	for name, flags := range map[string][]string{
		"containers": {"--without", "coredns", "--nodes", "0"},
		"in-process": {"--in-process"},
	} {
		t.Run(name, func(t *testing.T) {
			testSwapMatrix(t, "e2e-matrix-"+name, flags...)
		})
	}
}

func testSwapMatrix(t *testing.T, name string, flags ...string) {
	g := NewWithT(t)
	dir := t.TempDir()
	built, err := buildPrograms(t, "../cmd/pause")
	g.Expect(err).NotTo(HaveOccurred())
	args := append([]string{"matrix", "--name", name, "--report", dir,
		"--swap", "kube-scheduler=" + filepath.Join(built, "pause"),
		"--filter", "^(api/crud|scheduling/node-selector)$", "--case-timeout", "20s"}, flags...)
	cmd := exec.CommandContext(t.Context(), "../bin/quintet", args...)
	out, err := cmd.CombinedOutput()
	g.Expect(cmd.ProcessState.ExitCode()).To(Equal(1), "%v\n%s", err, out)

	content, err := os.ReadFile(filepath.Join(dir, "matrix.json"))
	g.Expect(err).NotTo(HaveOccurred())
	var made matrix.Matrix
	g.Expect(json.Unmarshal(content, &made)).To(Succeed())
	g.Expect(made.Cells).To(HaveLen(2), string(out))
	g.Expect(made.Cells[0].Result).To(Equal(report.ResultFiltered), string(out))
	g.Expect(made.Cells[1].Broken).To(Equal([]matrix.BrokenCases{
		{Component: "kube-scheduler", Cases: []string{"scheduling/node-selector"}}}), string(out))
	for _, file := range []string{"matrix.html", "cell-0/report.html", "cell-1/junit.xml"} {
		g.Expect(filepath.Join(dir, file)).To(BeARegularFile())
	}
	for _, cell := range []string{name + "-0", name + "-1"} {
		g.Expect(docker(t, "ps", "--all", "--quiet", "--filter", "label=io.quintet.cluster="+cell)).To(BeEmpty())
	}
	g.Expect(docker(t, "image", "ls", "--quiet", "quintet-"+name+"/*")).To(BeEmpty())
}
