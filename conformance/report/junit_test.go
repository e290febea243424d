package report

import (
	"bytes"
	"encoding/xml"
	"testing"

	"quintet.dev/quintet/internal/golden"
)

// withAttempts is the sample with cases that ran more than once.
func withAttempts() *Report {
	r := sample()
	r.Cases = append(r.Cases, Case{ID: "node/f", Component: "kubelet", Profiles: []string{"node", "full"}, Outcome: Failed,
		Reason: "once", Seconds: 1}, Case{ID: "node/g", Component: "kubelet", Profiles: []string{"node", "full"},
		Outcome: Inconclusive, Reason: "no room", Seconds: 1})
	r.Merge(&Report{Suite: r.Suite, Cluster: r.Cluster, Machine: r.Machine, Seconds: 1, Cases: []Case{
		{ID: "api/b", Component: "kube-apiserver", Profiles: []string{"api-only", "full"}, Outcome: Failed, Reason: "again",
			Seconds: 1},
		{ID: "node/f", Component: "kubelet", Profiles: []string{"node", "full"}, Outcome: Passed, Seconds: 0.25},
		{ID: "node/g", Component: "kubelet", Profiles: []string{"node", "full"}, Outcome: Passed, Seconds: 0.25},
	}})
	r.Conclude(profiles)
	return r
}

// TestJUnit holds the file against one that was read by people; -update writes it again.
func TestJUnit(t *testing.T) {
	var b bytes.Buffer
	if err := withAttempts().WriteJUnit(&b); err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "testdata/junit.xml", b.String())
	var read junitSuites
	if err := xml.Unmarshal(b.Bytes(), &read); err != nil {
		t.Fatal(err)
	}
	if read.Tests != 7 || read.Failures != 1 || read.Errors != 1 || read.Skipped != 1 || len(read.Suites) != 3 {
		t.Errorf("read back: %d tests, %d failures, %d errors, %d skipped", read.Tests, read.Failures, read.Errors,
			read.Skipped)
	}
}
