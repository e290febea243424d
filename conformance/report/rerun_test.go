package report

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestToRerun(t *testing.T) {
	if got := sample().ToRerun(); !slices.Equal(got, []string{"api/b", "node/d"}) {
		t.Errorf("%v", got)
	}
}

func TestMergeKeepsAttempts(t *testing.T) {
	for name, test := range map[string]struct {
		outcomes []Outcome
		want     Outcome
		reason   string
	}{
		"failed, then passed": {[]Outcome{Failed, Passed}, Flaky,
			"passed at attempt 2; attempt 1 failed: why 0"},
		"inconclusive, then passed": {[]Outcome{Inconclusive, Passed}, Passed, "passed at attempt 2"},
		"failed twice":              {[]Outcome{Failed, Failed}, Failed, "why 1"},
		"failed, then inconclusive": {[]Outcome{Failed, Inconclusive}, Inconclusive, "why 1"},
		"failed, inconclusive, then passed": {[]Outcome{Failed, Inconclusive, Passed}, Flaky,
			"passed at attempt 3; attempt 1 failed: why 0"},
	} {
		r := &Report{Cases: []Case{{ID: "a", Outcome: Passed}, {ID: "b", Outcome: test.outcomes[0], Reason: "why 0",
			Seconds: 1}}}
		for i, outcome := range test.outcomes[1:] {
			reason := ""
			if outcome != Passed {
				reason = fmt.Sprint("why ", i+1)
			}
			r.Merge(&Report{Seconds: 2, Cases: []Case{{ID: "a", Outcome: Skipped},
				{ID: "b", Outcome: outcome, Reason: reason, Seconds: 2}}})
		}
		a, b := r.Cases[0], r.Cases[1]
		if a.Outcome != Passed || a.Attempts != nil {
			t.Errorf("%s: the case that was not run again: %+v", name, a)
		}
		if b.Outcome != test.want || b.Reason != test.reason || b.Seconds != 2 {
			t.Errorf("%s: %s, %q, want %s, %q", name, b.Outcome, b.Reason, test.want, test.reason)
		}
		var attempts []Outcome
		for _, attempt := range b.Attempts {
			attempts = append(attempts, attempt.Outcome)
		}
		if !slices.Equal(attempts, test.outcomes) {
			t.Errorf("%s: attempts %v", name, attempts)
		}
		if want := float64(2 * (len(test.outcomes) - 1)); r.Seconds != want {
			t.Errorf("%s: %v seconds in all, want %v", name, r.Seconds, want)
		}
	}
}

func TestSameSubject(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Report)
		want   string
	}{
		"the same":            {func(*Report) {}, ""},
		"elsewhere":           {func(r *Report) { r.Cluster.Server, r.Machine.Cores = "https://b", 4 }, ""},
		"a pod not there yet": {func(r *Report) { r.Cluster.Images = nil }, ""},
		"two of one container": {func(r *Report) {
			r.Cluster.Images = append(r.Cluster.Images, Image{"coredns", "x",
				"sha256:2"})
		}, ""},
		"another suite":         {func(r *Report) { r.Suite.Digest = "other" }, "the suite is another"},
		"another version":       {func(r *Report) { r.Cluster.Version = "v1.37.0" }, "the cluster is another"},
		"an image was replaced": {func(r *Report) { r.Cluster.Images[0].ID = "sha256:2" }, "coredns runs from another image"},
	} {
		now := sample()
		test.change(now)
		err := SameSubject(sample(), now)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}
