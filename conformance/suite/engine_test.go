package suite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"quintet.dev/quintet/conformance/report"
)

// fakeCluster has an API that makes namespaces, and nothing else.
func fakeCluster() *Cluster {
	client := fake.NewClientset()
	var made atomic.Int64
	client.PrependReactor("create", "namespaces", func(action clienttesting.Action) (bool, runtime.Object, error) {
		namespace := action.(clienttesting.CreateAction).GetObject().(*corev1.Namespace)
		namespace.Name = fmt.Sprint(namespace.GenerateName, made.Add(1))
		return false, nil, nil
	})
	return &Cluster{Client: client, Features: map[Feature]bool{}, Required: map[Feature]bool{}}
}

func TestOutcomes(t *testing.T) {
	tests := map[string]struct {
		run     func(ctx context.Context, t *T)
		needs   []Feature
		outcome report.Outcome
		reason  string
	}{
		"passes": {func(context.Context, *T) {}, nil, report.Passed, ""},
		"fails": {func(_ context.Context, t *T) { t.Expect(1).To(gomega.Equal(2)) }, nil, report.Failed,
			"to equal"},
		"an error": {func(_ context.Context, t *T) { t.Must(errors.New("no"), "write") }, nil, report.Failed,
			"write: no"},
		"can't judge": {func(_ context.Context, t *T) { t.Fault(errors.New("no image")) }, nil, report.Inconclusive,
			"no image"},
		"panics":        {func(context.Context, *T) { panic("oh") }, nil, report.Inconclusive, "panic: oh"},
		"not supported": {nil, []Feature{TwoNodes}, report.NotSupported, "the cluster has no two-nodes"},
		"required": {func(_ context.Context, t *T) { t.Expect(t.Features).To(gomega.BeEmpty()) }, []Feature{RunsPods},
			report.Passed, ""},
		"not asked for": {nil, nil, report.Skipped, "not asked for"},
	}
	var list []Case
	for name, test := range tests {
		id := "a/" + strings.ReplaceAll(name, " ", "-")
		list = append(list, Case{ID: id, Requirement: name, Needs: test.needs, Run: test.run})
	}
	cluster := fakeCluster()
	cluster.Required[RunsPods] = true
	engine := Engine{Cluster: cluster, Cases: list, Parallel: 3, Skip: func(c *Case) string {
		if c.ID == "a/not-asked-for" {
			return "not asked for"
		}
		return ""
	}}
	for i, got := range engine.Run(t.Context()) {
		want := tests[list[i].Requirement]
		if got.ID != list[i].ID || got.Outcome != want.outcome || !strings.Contains(got.Reason, want.reason) {
			t.Errorf("%s: %s %s: %q, want %s: %q", list[i].ID, got.ID, got.Outcome, got.Reason, want.outcome,
				want.reason)
		}
	}
}

// TestFailingCleanup checks that a cleanup which fails is not the case's, and keeps no other from its turn.
func TestFailingCleanup(t *testing.T) {
	cleaned := false
	engine := Engine{Cluster: fakeCluster(), Cases: []Case{{ID: "a/b", Run: func(_ context.Context, t *T) {
		t.Cleanup(func(context.Context) { cleaned = true })
		t.Cleanup(func(context.Context) { t.Must(errors.New("no"), "remove what was made") })
	}}}}
	if got := engine.Run(t.Context()); got[0].Outcome != report.Passed || !cleaned {
		t.Errorf("outcome %s, cleaned up: %t; want Passed and true", got[0].Outcome, cleaned)
	}
}

// TestSideBySide checks that as many cases run at once as were asked for, no more, and serial ones alone.
func TestSideBySide(t *testing.T) {
	const parallel = 3
	var running, most atomic.Int64
	full := make(chan struct{})
	beside := func(context.Context, *T) {
		now := running.Add(1)
		defer running.Add(-1)
		for before := most.Load(); now > before && !most.CompareAndSwap(before, now); before = most.Load() {
		}
		if now == parallel {
			close(full) // a second time would be a panic, which is Inconclusive: the cases are as many as may run at once
		}
		<-full
	}
	alone := func(_ context.Context, t *T) {
		t.Expect(running.Add(1)).To(gomega.BeEquivalentTo(1))
		running.Add(-1)
	}
	engine := Engine{Cluster: fakeCluster(), Parallel: parallel, Cases: []Case{
		{ID: "a/1", Serial: true, Run: alone}, {ID: "a/2", Run: beside}, {ID: "a/3", Run: beside},
		{ID: "a/4", Serial: true, Run: alone}, {ID: "a/5", Run: beside},
	}}
	for _, got := range engine.Run(t.Context()) {
		if got.Outcome != report.Passed {
			t.Errorf("%s: %s: %s", got.ID, got.Outcome, got.Reason)
		}
	}
	if most.Load() != parallel {
		t.Errorf("%d cases ran at once, want %d", most.Load(), parallel)
	}
}

// TestEndedRun checks that cases without time left are Inconclusive, also one that fails for that, and those before are
// not lost.
func TestEndedRun(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	engine := Engine{Cluster: fakeCluster(), Cases: []Case{
		{ID: "a/1", Run: func(context.Context, *T) {}},
		{ID: "a/2", Run: func(_ context.Context, t *T) { cancel(); t.Must(errors.New("cut off"), "read") }},
		{ID: "a/3", Run: func(context.Context, *T) {}}, {ID: "a/4", Needs: []Feature{TwoNodes}},
	}}
	var outcomes []report.Outcome
	for _, got := range engine.Run(ctx) {
		outcomes = append(outcomes, got.Outcome)
	}
	if want := []report.Outcome{report.Passed, report.Inconclusive, report.Inconclusive,
		report.NotSupported}; !slices.Equal(outcomes, want) {
		t.Errorf("outcomes %v, want %v", outcomes, want)
	}
}

// TestWithoutTheTestImage: what can't be found out without the test image is not the cluster's lack.
func TestWithoutTheTestImage(t *testing.T) {
	cluster := fakeCluster()
	cluster.pullFailure = "node n can't pull the test image"
	engine := Engine{Cluster: cluster, Cases: []Case{
		{ID: "a/1", Needs: []Feature{RunsPods, ClusterDNS}}, {ID: "a/2", Needs: []Feature{ResourceMetrics}},
	}}
	got := engine.Run(t.Context())
	if got[0].Outcome != report.Inconclusive || got[0].Reason != cluster.pullFailure ||
		got[1].Outcome != report.NotSupported {
		t.Errorf("%+v", got)
	}
}
