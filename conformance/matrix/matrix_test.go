package matrix

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"quintet.dev/quintet/conformance/report"
	"quintet.dev/quintet/internal/golden"
)

func TestPlans(t *testing.T) {
	a, b, other := Swap{"kube-scheduler", "a:1"}, Swap{"node", "b"}, Swap{"kube-scheduler", "c:1"}
	for name, test := range map[string]struct {
		swaps []Swap
		extra Extra
		want  string
		err   string
	}{
		"one each": {[]Swap{a, b}, Extra{}, "base; kube-scheduler=a:1; node=b", ""},
		"pairs of different components": {[]Swap{a, b, other}, Extra{Pairs: true},
			"base; kube-scheduler=a:1; node=b; kube-scheduler=c:1; kube-scheduler=a:1 + node=b; node=b + kube-scheduler=c:1",
			""},
		"together": {[]Swap{a, b}, Extra{Together: true},
			"base; kube-scheduler=a:1; node=b; kube-scheduler=a:1 + node=b", ""},
		"a pair is all": {[]Swap{a, b}, Extra{true, true},
			"base; kube-scheduler=a:1; node=b; kube-scheduler=a:1 + node=b", ""},
		"one alone is not twice": {[]Swap{a}, Extra{true, true}, "base; kube-scheduler=a:1", ""},
		"two of one":             {[]Swap{a, other}, Extra{}, "base; kube-scheduler=a:1; kube-scheduler=c:1", ""},
		"two of one, together":   {[]Swap{a, other}, Extra{Together: true}, "", "several of kube-scheduler"},
		"twice":                  {[]Swap{a, a}, Extra{}, "", "given twice"},
	} {
		plans, err := Plans(test.swaps, test.extra)
		if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%s: %v, want %q", name, err, test.err)
		}
		var names []string
		for _, plan := range plans {
			names = append(names, plan.Name)
		}
		if got := strings.Join(names, "; "); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

// ran makes the report of a cell from outcomes as in "api/a=Passed".
func ran(outcomes ...string) *report.Report {
	r := &report.Report{Suite: report.Suite{Version: "1", Digest: "sha256:d"},
		Cluster: report.Cluster{Version: "v1.36.0"}}
	for _, outcome := range outcomes {
		id, outcome, _ := strings.Cut(outcome, "=")
		component, _, _ := strings.Cut(id, "/")
		c := report.Case{ID: id, Component: component, Profiles: []string{"full"}, Requirement: "It MUST <be>.",
			Reference: "https://example.com/" + id, Outcome: report.Outcome(outcome)}
		if c.Outcome == report.Failed {
			c.Reason = "want <this>"
		}
		r.Cases = append(r.Cases, c)
	}
	r.Conclude([]report.ProfileSpec{{Name: "full"}})
	return r
}

func sample() *Matrix {
	m := New([]Run{
		{Plan: Plan{Name: Base}, Dir: "cell-0", Seconds: 10,
			Report: ran("api/a=Passed", "api/b=Failed", "scheduling/c=Passed", "scheduling/d=Passed", "node/e=Passed",
				"node/f=Skipped")},
		{Plan: plan(Swap{"kube-scheduler", "broken:1"}), Dir: "cell-1", Seconds: 20,
			Reason: "the cluster did not become ready",
			Report: ran("api/a=Passed", "api/b=Failed", "scheduling/c=Failed", "scheduling/d=NotSupported",
				"node/e=Inconclusive",
				"node/f=Skipped")},
		{Plan: plan(Swap{"etcd", "absent:1"}), Dir: "cell-2", Seconds: 1, Reason: "no image <absent:1>"},
	})
	m.Started = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return m
}

func TestWhoseComponentBreaksWhoseCase(t *testing.T) {
	m := sample()
	if len(m.Cases) != 5 {
		t.Fatalf("%d cases, want those that ran: %+v", len(m.Cases), m.Cases)
	}
	if got := fmt.Sprint(m.Cells[1].Broken); got != "[{scheduling [scheduling/c scheduling/d]}]" {
		t.Errorf("the broken scheduler breaks %s", got)
	}
	if m.Cells[0].Broken != nil {
		t.Errorf("the base breaks %v", m.Cells[0].Broken)
	}
	absent := m.Cells[2]
	if absent.Result != report.ResultInconclusive || absent.Totals[report.Inconclusive] != 5 || absent.Cluster != nil {
		t.Errorf("the cell that did not come up: %+v", absent)
	}
	if r := m.Cases[0].Results[2]; r.Reason != "no image <absent:1>" || r.Good() || absent.Broken != nil {
		t.Errorf("its reason: %+v", r)
	}
	var differ []string
	for _, c := range m.Cases {
		if c.Differs() {
			differ = append(differ, c.ID)
		}
	}
	if want := []string{"api/a", "api/b", "scheduling/c", "scheduling/d", "node/e"}; !slices.Equal(differ, want) {
		t.Errorf("cases that differ: %v", differ)
	}
}

func TestResultOfMatrix(t *testing.T) {
	base := Run{Plan: Plan{Name: Base}, Report: ran("a/a=Passed", "a/b=Passed")}
	for name, test := range map[string]struct {
		runs []Run
		want report.Result
	}{
		"all conform": {[]Run{base, base}, report.ResultConformant},
		"filtered": {[]Run{{Report: ran("a/a=Passed", "a/b=Skipped")}, {Report: ran("a/a=Passed",
			"a/b=Skipped")}}, report.ResultFiltered},
		"a swap breaks a case":    {[]Run{base, {Report: ran("a/a=Passed", "a/b=Failed")}}, report.ResultFailed},
		"a swap lacks a feature":  {[]Run{base, {Report: ran("a/a=Passed", "a/b=NotSupported")}}, report.ResultFailed},
		"a cell did not come up":  {[]Run{base, {Reason: "no image"}}, report.ResultInconclusive},
		"the base did not, alone": {[]Run{{Reason: "no image"}}, report.ResultInconclusive},
		"failed and inconclusive": {[]Run{base, {Reason: "no image"}, {Report: ran("a/a=Failed")}}, report.ResultFailed},
		"a swap mends a case":     {[]Run{{Report: ran("a/a=NotSupported", "a/b=Passed")}, base}, report.ResultConformant},
	} {
		if got := New(test.runs).Result(); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

// TestForms holds what is written against files that were read by people; -update writes them again.
func TestForms(t *testing.T) {
	m := sample()
	var page, text, all, encoded bytes.Buffer
	for _, err := range []error{m.WriteHTML(&page), m.WriteText(&text, false), m.WriteText(&all, true),
		m.WriteJSON(&encoded)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	golden.Compare(t, "testdata/matrix.html", page.String())
	golden.Compare(t, "testdata/matrix.txt", text.String())
	if strings.Contains(page.String(), "ZgotmplZ") || strings.Contains(page.String(), "<absent") {
		t.Error("the page is not escaped")
	}
	var read Matrix
	if err := json.Unmarshal(encoded.Bytes(), &read); err != nil || len(read.Cases) != 5 || len(read.Cells) != 3 ||
		read.Kind != Kind {
		t.Errorf("read back: %v, %+v", err, read)
	}
	same := New([]Run{{Plan: Plan{Name: Base}, Report: ran("a/a=Passed", "a/b=Passed")}, {Report: ran("a/a=Passed",
		"a/b=Failed")}})
	text.Reset()
	all.Reset()
	if err := same.WriteText(&text, false); err != nil {
		t.Fatal(err)
	}
	if err := same.WriteText(&all, true); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text.String(), "a/a") || !strings.Contains(text.String(), "1 case came out the same") ||
		!strings.Contains(all.String(), "a/a") {
		t.Errorf("differing only:\n%s\nall:\n%s", text.String(), all.String())
	}
}
