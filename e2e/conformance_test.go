package e2e

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"quintet.dev/quintet/cluster"
	"quintet.dev/quintet/conformance"
	"quintet.dev/quintet/conformance/report"
)

// TestConformance runs the whole suite on two nodes. The report goes to the folder named by QUINTET_REPORT_DIR.
func TestConformance(t *testing.T) {
	w := start(t, cluster.WithNodes(2))
	var progress bytes.Buffer
	made, err := conformance.Run(t.Context(), conformance.Options{Config: w.RESTConfig(), Name: "quintet", Progress: io.MultiWriter(&progress, os.Stdout)})
	if err != nil {
		t.Fatal(err)
	}
	if dir := os.Getenv("QUINTET_REPORT_DIR"); dir != "" {
		w.must(made.WriteAll(dir), "write the report")
		t.Logf("the report is %s", filepath.Join(dir, "report.html"))
	}
	for _, c := range made.Cases {
		if c.Outcome != report.Passed {
			t.Errorf("%s: %s: %s", c.ID, c.Outcome, c.Reason)
		}
	}
}
