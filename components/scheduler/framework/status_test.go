package framework

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"quintet.dev/quintet/components/scheduler/commit"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

var errBroken = errors.New("broken")

// TestStatuses: what a plug-in says is a refusal that may pass, one that may not, or a failure; and a refusal that goes
// back to a plug-in says the same.
func TestStatuses(t *testing.T) {
	for name, c := range map[string]struct {
		status                        *fwk.Status
		success, unresolvable, failed bool
		pending                       bool
	}{
		"nothing":        {status: nil, success: true},
		"success":        {status: fwk.NewStatus(fwk.Success), success: true},
		"unschedulable":  {status: fwk.NewStatus(fwk.Unschedulable, "full")},
		"unresolvable":   {status: fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "full"), unresolvable: true},
		"pending":        {status: fwk.NewStatus(fwk.Pending, "full"), pending: true},
		"error":          {status: fwk.AsStatus(errBroken), failed: true},
		"skip at Filter": {status: fwk.NewStatus(fwk.Skip), failed: true},
	} {
		r, s := refusal(c.status, "Filter", "Mine"), failed(c.status)
		if (r == nil) != c.success || (s == nil) != c.success {
			t.Errorf("%s: %+v, %+v", name, r, s)
			continue
		}
		if c.success {
			continue
		}
		if (r.Err != nil) != c.failed || r.Unresolvable != c.unresolvable || r.Pending != c.pending {
			t.Errorf("%s: refusal %+v", name, r)
		}
		if (s.Err != nil) != c.failed || s.Unresolvable != c.unresolvable || s.Pending != c.pending {
			t.Errorf("%s: status %+v", name, s)
		}
		if !c.failed && (!slices.Equal(r.Reasons, []string{"full"}) || !slices.Equal(s.Reasons, r.Reasons)) {
			t.Errorf("%s: reasons %v, %v", name, r.Reasons, s.Reasons)
		}
		if c.pending {
			continue // which is one of the refusals that may pass
		}
		back := status(r, "Mine")
		if back.IsRejected() == c.failed || (back.Code() == fwk.UnschedulableAndUnresolvable) != c.unresolvable ||
			back.Plugin() != "Mine" {
			t.Errorf("%s: back it is %v", name, back)
		}
	}
	if r := refusal(fwk.AsStatus(errBroken), "Filter", "Mine"); !errors.Is(r.Err, errBroken) ||
		r.Err.Error() != `running Filter plugin "Mine": broken` {
		t.Errorf("the error is %v", r.Err)
	}
}

// answers is a plug-in of the commit that says one thing at each of its points.
type answers struct {
	namedPlugin
	status  *fwk.Status
	timeout time.Duration
	nodes   []string // of the pods that it got
}

func (a *answers) note(p *v1.Pod) *fwk.Status {
	a.nodes = append(a.nodes, p.Spec.NodeName)
	return a.status
}

func (a *answers) Permit(_ context.Context, _ fwk.CycleState, p *v1.Pod, _ string) (*fwk.Status, time.Duration) {
	return a.note(p), a.timeout
}

func (a *answers) Bind(_ context.Context, _ fwk.CycleState, p *v1.Pod, _ string) *fwk.Status {
	return a.note(p)
}

func (a *answers) PreBindPreFlight(_ context.Context, _ fwk.CycleState, p *v1.Pod,
	_ string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	return nil, a.note(p)
}

func (a *answers) PreBind(_ context.Context, _ fwk.CycleState, p *v1.Pod, _ string) *fwk.Status {
	return a.note(p)
}

func newPlacement() *commit.Placement {
	return &commit.Placement{Pod: snapshot.NewPod(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}), Node: "n"}
}

// TestCommit: plug-ins see the pod on its node; Skip leaves a step to others, Wait holds the pod up for some time, and
// all else is success or a failure.
func TestCommit(t *testing.T) {
	ctx := t.Context()
	for name, c := range map[string]struct {
		status                *fwk.Status
		timeout, wait         time.Duration
		bound, wanted, failed bool
	}{
		"success": {status: nil, bound: true, wanted: true},
		"skip":    {status: fwk.NewStatus(fwk.Skip)},
		"refused": {status: fwk.NewStatus(fwk.Unschedulable, "no"), bound: true, wanted: true, failed: true},
		"failed":  {status: fwk.AsStatus(errBroken), bound: true, wanted: true, failed: true},
	} {
		a, p := &answers{status: c.status}, newPlacement()
		bound, s := (&bind{"Mine", a}).Bind(ctx, p)
		if bound != c.bound || (s != nil) != c.failed {
			t.Errorf("%s: bound %t, %+v", name, bound, s)
		}
		wanted, s := (&preBind{"Mine", a}).PreFlight(ctx, p)
		if wanted != c.wanted || (s != nil) != c.failed {
			t.Errorf("%s: wanted %t, %+v", name, wanted, s)
		}
		if !slices.Equal(a.nodes, []string{"n", "n"}) || p.Pod.Obj.Spec.NodeName != "" {
			t.Errorf("%s: the plug-in saw the pod on %q; the pod itself is on %q", name, a.nodes, p.Pod.Obj.Spec.NodeName)
		}
	}
	for name, c := range map[string]struct {
		status        *fwk.Status
		timeout, want time.Duration
		failed        bool
	}{
		"allowed":        {nil, time.Second, 0, false},
		"a wait":         {fwk.NewStatus(fwk.Wait), time.Second, time.Second, false},
		"a wait of none": {fwk.NewStatus(fwk.Wait), 0, time.Nanosecond, false},
		"refused":        {fwk.NewStatus(fwk.Unschedulable), time.Second, 0, true},
	} {
		wait, s := (&permit{"Mine", &answers{status: c.status, timeout: c.timeout}}).Permit(ctx, newPlacement())
		if wait != c.want || (s != nil) != c.failed {
			t.Errorf("permit, %s: %v, %+v", name, wait, s)
		}
	}
}

// TestPodInPreBind: a binding is cancelled or past the point, never both.
func TestPodInPreBind(t *testing.T) {
	for _, cancelFirst := range []bool{true, false} {
		s := &Services{}
		ctx, cancel := context.WithCancelCause(t.Context())
		s.AddPodInPreBind("u", cancel)
		p := s.podInPreBind("u")
		if cancelFirst {
			if !p.CancelPod("another is more important") || s.MarkPrebound("u") || !p.CancelPod("again") {
				t.Error("a cancelled binding is past the point")
			}
			if cause := context.Cause(ctx); cause == nil || cause.Error() != "another is more important" {
				t.Errorf("the cause is %v", cause)
			}
		} else if !s.MarkPrebound("u") || p.CancelPod("too late") || ctx.Err() != nil {
			t.Error("a binding past the point was cancelled")
		}
		s.RemovePodInPreBind("u")
		if s.podInPreBind("u") != nil || !s.MarkPrebound("u") {
			t.Error("it is still known")
		}
		cancel(nil)
	}
}
