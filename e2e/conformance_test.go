package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quintet.dev/quintet/cluster"
	"quintet.dev/quintet/conformance"
	"quintet.dev/quintet/conformance/report"
	"quintet.dev/quintet/conformance/suite"
)

// maxAgain is how many cases may fail at the first attempt: where more do, no machine was merely busy.
const maxAgain = 5

// TestConformance runs the whole suite on two nodes. The report goes to the folder named by QUINTET_REPORT_DIR.
func TestConformance(t *testing.T) {
	var failures []string
	t.Cleanup(func() { // the last of the clean-ups: the logs of the components, which come before, are long
		if len(failures) > 0 {
			t.Errorf("%d cases did not pass:\n%s", len(failures), strings.Join(failures, "\n"))
		}
	})
	w := start(t, cluster.WithNodes(2), cluster.WithMetricsServer(), cluster.WithCSIDriver(),
		cluster.WithDeviceDriver(), cluster.WithArgs(cluster.Node, "--pod-max-pids=300"))
	made, err := conformance.Run(t.Context(), conformance.Options{Config: w.RESTConfig(), Name: "quintet",
		Profiles: []suite.Profile{suite.ProfileFull}, Progress: os.Stdout})
	w.must(err, "run the suite")
	// On a busy machine a case may run out of its time: the few that fail run again. The report keeps both attempts.
	if again := made.ToRerun(); len(again) > 0 && len(again) <= maxAgain {
		t.Logf("at the first attempt failed: %v", again)
		made, err = conformance.Run(t.Context(), conformance.Options{Config: w.RESTConfig(), Name: "quintet", Rerun: made,
			Progress: os.Stdout})
		w.must(err, "run %v again", again)
	}
	if dir := os.Getenv("QUINTET_REPORT_DIR"); dir != "" {
		w.must(made.WriteAll(dir), "write the report")
		t.Logf("the report is %s", filepath.Join(dir, "report.html"))
	}
	for _, c := range made.Cases {
		if c.Outcome == report.NotSupported && c.ID == "node/huge-pages" && !hugePages(t) {
			t.Logf("%s did not run: this machine has no huge pages (sysctl vm.nr_hugepages)", c.ID)
			continue
		}
		if c.Outcome != report.Passed {
			failures = append(failures, fmt.Sprintf("%s: %s: %s", c.ID, c.Outcome, c.Reason))
		}
	}
	if len(failures) > 0 {
		t.Fail() // now, so that the logs are shown
	}
}

// hugePages tells whether this machine, on which the nodes run, has huge pages of any size.
func hugePages(t *testing.T) bool {
	files, err := filepath.Glob("/sys/kernel/mm/hugepages/*/nr_hugepages")
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(file string) bool {
		content, err := os.ReadFile(file)
		return err == nil && strings.TrimSpace(string(content)) != "0"
	})
}
