package report

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"quintet.dev/quintet/conformance/score"
)

func sample() *Report {
	r := &Report{
		APIVersion: APIVersion, Kind: Kind,
		Suite: Suite{Version: "0.1", Digest: "sha256:d", Image: "test:1", Features: []string{"pods"}},
		Cluster: Cluster{Name: "demo <1>", Server: "https://127.0.0.1:6443", Version: "v1.36.6",
			Nodes:  []Node{{Name: "n1", Kubelet: "v1.36.6"}},
			Images: []Image{{Container: "coredns", Image: "dns:1", ID: "sha256:1"}}},
		Machine: Machine{OS: "linux", Arch: "amd64", Kernel: "6.18", CPU: "a CPU", Cores: 2, MemoryBytes: 24 << 30},
		Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Seconds: 2.5,
		Cases: []Case{
			{ID: "api/a", Component: "kube-apiserver", Profiles: []string{"api-only", "full"}, Requirement: "It MUST.",
				Reference: "https://example.com/a", Outcome: Passed, Seconds: 1},
			{ID: "api/b", Component: "kube-apiserver", Profiles: []string{"api-only", "full"},
				Requirement: "It MUST | too.", Reference: "https://example.com/b", Outcome: Failed,
				Reason: "want <x>\nsecond line", Seconds: 1},
			{ID: "node/c", Component: "kubelet", Profiles: []string{"node", "full"}, Needs: []string{"two-nodes"},
				Outcome: NotSupported, Reason: "the cluster has no two-nodes"},
			{ID: "node/d", Component: "kubelet", Profiles: []string{"node", "full"}, Needs: []string{"pods"},
				Outcome: Inconclusive, Reason: "connection refused"},
			{ID: "flow/e", Component: "flow", Profiles: []string{"full"}, Outcome: Passed, Seconds: 0.5,
				Score: &score.Timeline{
					Actors: []string{"client", "kube-scheduler", "kubelet"},
					Entries: []score.Entry{
						{At: 1, Actor: "client", Object: "Pod p", What: "created", Milestone: score.Accepted},
						{At: 5.25, Actor: "kube-scheduler", Object: "Pod p", What: "bound to <n1>",
							Milestone: score.Bound},
						{At: 1305.25, Actor: "kubelet", Object: "Pod p", What: "phase Running",
							Milestone: score.Running},
					}}},
		},
	}
	r.Conclude(profiles)
	return r
}

var profiles = []ProfileSpec{
	{Name: "api-only", Extended: []string{"protobuf"}},
	{Name: "node", Core: []string{"pods"}, Extended: []string{"two-nodes"}},
	{Name: "full", Core: []string{"pods"}, Extended: []string{"protobuf", "two-nodes"}},
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

func TestMarkdownNamesEveryCase(t *testing.T) {
	var b bytes.Buffer
	if err := sample().WriteMarkdown(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| kube-apiserver | 1 | 0 | 1 | 0 | 0 | 0 |", "`node/d`",
		"### Inconclusive: node/d", "| api-only | failed | 1/2 | - | 1 case failed |", "2 x a CPU, 24.0 GiB",
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
		`id="score-flow/e"`, "&#43;4.2 ms", "kube-apiserver",
		`<span class="verdict Failed">failed</span>`, "1 case came to no verdict", "2 x a CPU", "<code>dns:1</code>"} {
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
