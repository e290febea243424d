package report

import (
	"bytes"
	"encoding/xml"
	"strings"
	"testing"
	"time"

	"quintet.dev/quintet/conformance/score"
)

func sample() *Report {
	return &Report{
		APIVersion: APIVersion, Kind: Kind,
		Suite: Suite{Version: "0.1", Features: []string{"pods"}},
		Cluster: Cluster{Name: "demo <1>", Server: "https://127.0.0.1:6443", Version: "v1.36.6",
			Nodes: []Node{{Name: "n1", Kubelet: "v1.36.6"}}},
		Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Seconds: 2.5,
		Cases: []Case{
			{ID: "api/a", Component: "kube-apiserver", Requirement: "It MUST.", Reference: "https://example.com/a",
				Outcome: Passed, Seconds: 1},
			{ID: "api/b", Component: "kube-apiserver", Requirement: "It MUST | too.",
				Reference: "https://example.com/b", Outcome: Failed, Reason: "want <x>\nsecond line", Seconds: 1},
			{ID: "node/c", Component: "kubelet", Outcome: NotSupported, Reason: "the cluster has no pods"},
			{ID: "node/d", Component: "kubelet", Outcome: Faulty, Reason: "connection refused"},
			{ID: "flow/e", Component: "flow", Outcome: Passed, Seconds: 0.5, Score: &score.Timeline{
				Actors: []string{"client", "kube-scheduler", "kubelet"},
				Entries: []score.Entry{
					{At: 1, Actor: "client", Object: "Pod p", What: "created", Milestone: score.Accepted},
					{At: 5.25, Actor: "kube-scheduler", Object: "Pod p", What: "bound to <n1>", Milestone: score.Bound},
					{At: 1305.25, Actor: "kubelet", Object: "Pod p", What: "phase Running", Milestone: score.Running},
				}}},
		},
	}
}

func TestReadTakesWhatWriteWrote(t *testing.T) {
	var b bytes.Buffer
	if err := sample().WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	got, err := Read(&b)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Cases) != 5 || got.Cases[4].Score.Entries[1].Milestone != score.Bound {
		t.Errorf("read back %+v", got)
	}
	if _, err := Read(strings.NewReader(`{"apiVersion":"v0","kind":"Other"}`)); err == nil {
		t.Error("another type of document must be refused")
	}
}

func TestConformantNeedsAPassAndNoFailure(t *testing.T) {
	r := sample()
	if r.Conformant() {
		t.Error("a failed case and a faulty one: not conformant")
	}
	r.Cases = r.Cases[:1]
	if !r.Conformant() {
		t.Error("all judged cases passed")
	}
	r.Cases[0].Outcome = Skipped
	if r.Conformant() {
		t.Error("nothing was judged")
	}
}

func TestJUnitKeepsTheOutcomesApart(t *testing.T) {
	var b bytes.Buffer
	if err := sample().WriteJUnit(&b); err != nil {
		t.Fatal(err)
	}
	var got junitSuites
	if err := xml.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Suites) != 3 {
		t.Fatalf("suites = %d", len(got.Suites))
	}
	api, kubelet := got.Suites[0], got.Suites[1]
	if api.Tests != 2 || api.Failures != 1 || api.Cases[1].Failure == nil ||
		api.Cases[1].Failure.Message != "want <x>" {
		t.Errorf("kube-apiserver: %+v", api)
	}
	if kubelet.Errors != 1 || kubelet.Skipped != 1 ||
		!strings.HasPrefix(kubelet.Cases[0].Skipped.Message, "NotSupported: ") {
		t.Errorf("kubelet: %+v", kubelet)
	}
}

func TestMarkdownNamesEveryCase(t *testing.T) {
	var b bytes.Buffer
	if err := sample().WriteMarkdown(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| kube-apiserver | 1 | 1 | 0 | 0 | 0 |", "`node/d`", "### Faulty: node/d",
		"It MUST \\| too."} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

func TestPageIsSelfContainedAndEscapes(t *testing.T) {
	var b bytes.Buffer
	if err := sample().WriteHTML(&b); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, want := range []string{"demo &lt;1&gt;", "want &lt;x&gt;", "bound to &lt;n1&gt;", "1.305 s",
		`id="score-flow/e"`, "&#43;4.2 ms", "kube-apiserver"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in the page", want)
		}
	}
	for _, bad := range []string{"<script src", "<link", "ZgotmplZ", "<n1>"} {
		if strings.Contains(page, bad) {
			t.Errorf("%q in the page", bad)
		}
	}
}

func TestCompareListsOnlyChanges(t *testing.T) {
	before, after := sample(), sample()
	after.Cases[1].Outcome = Passed
	after.Cases = append(after.Cases[:2:2], Case{ID: "api/new", Outcome: Failed})
	got := Compare(before, after)
	want := []Change{
		{"api/b", Failed, Passed}, {"api/new", "", Failed}, {"flow/e", Passed, ""}, {"node/c", NotSupported, ""},
		{"node/d", Faulty, ""},
	}
	if len(got) != len(want) {
		t.Fatalf("changes = %v", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("change %d = %v, want %v", i, got[i], want[i])
		}
	}
}
