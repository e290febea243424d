package suite

import (
	"context"
	"errors"
	"strings"
	"testing"

	"quintet.dev/quintet/conformance/report"
)

// TestEndedComponent: the cases of a component that ends fail at once, also those that are running, and no others do.
func TestEndedComponent(t *testing.T) {
	lifetime, end := context.WithCancelCause(t.Context())
	cluster := fakeCluster()
	cluster.Required[HasScheduler] = true
	cluster.Lifetimes = map[Component]context.Context{Scheduler: lifetime}
	waits := func(ctx context.Context, t *T) {
		end(errors.New("exit status 3"))
		<-ctx.Done()
		t.Must(ctx.Err(), "wait for the pod")
	}
	passes := func(context.Context, *T) {}
	engine := Engine{Cluster: cluster, Cases: []Case{
		{ID: "a/running", Component: Scheduler, Run: waits},
		{ID: "a/after", Component: Scheduler, Run: passes},
		{ID: "a/needs-it", Component: Flow, Needs: []Feature{HasScheduler}, Run: passes},
		{ID: "a/other", Component: APIServer, Run: passes},
	}}
	got := engine.Run(t.Context())
	for _, c := range got[:3] {
		if c.Outcome != report.Failed || !strings.HasPrefix(c.Reason, "kube-scheduler has ended: exit status 3") {
			t.Errorf("%s: %s: %q", c.ID, c.Outcome, c.Reason)
		}
	}
	if !strings.Contains(got[0].Reason, "wait for the pod") {
		t.Errorf("what the case waited for is not told: %q", got[0].Reason)
	}
	if got[3].Outcome != report.Passed {
		t.Errorf("%s: %s: %q", got[3].ID, got[3].Outcome, got[3].Reason)
	}
}

// TestNotWaitedFor: the effect of what is absent is not looked for, nor that of a component which has ended.
func TestNotWaitedFor(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	for name, cluster := range map[string]*Cluster{
		"absent": {Absent: map[Feature]bool{HasScheduler: true}},
		"ended":  {Lifetimes: map[Component]context.Context{Scheduler: ended}},
	} {
		found, err := cluster.shows(t.Context(), HasScheduler, func(context.Context) (bool, error) {
			t.Errorf("%s: the effect is looked for", name)
			return true, nil
		})
		if found || err != nil {
			t.Errorf("%s: %t, %v", name, found, err)
		}
	}
}
