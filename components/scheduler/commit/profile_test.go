package commit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/scheduler/schedulertest"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

func (s *step) PostBind(context.Context, *Placement) { s.do("postbind") }

// prepared is a PreBind plug-in with a PreFlight of its own.
type prepared struct {
	*step
	does  bool
	fails *Status
}

func (p prepared) PreFlight(context.Context, *Placement) (bool, *Status) { return p.does, p.fails }

func placement(name string) *Placement {
	return &Placement{Pod: snapshot.NewPod(schedulertest.Pod(name, "", nil)), Node: "n"}
}

// measured records what an observer is told.
type measured struct{ log []string }

func (m *measured) Now() time.Time { return time.Unix(1, 0) }
func (m *measured) Point(point, status string, _ time.Time) {
	m.log = append(m.log, point+" "+status)
}
func (m *measured) Plugin(plugin, point, status string, _ time.Time) {
	m.log = append(m.log, plugin+" at "+point+" "+status)
}
func (m *measured) Evaluated(string, string, int) {}
func (m *measured) Waited(status string, began time.Time) {
	m.log = append(m.log, fmt.Sprintf("waited %s since %d", status, began.Unix()))
}

// TestPreFlight: a PreBind plug-in with nothing to do is left out, and one that can't tell ends the attempt.
func TestPreFlight(t *testing.T) {
	refused := &Status{Reasons: []string{"no disk"}}
	broken := &Status{Err: errors.New("broken")}
	for name, test := range map[string]struct {
		first, second  prepared
		needed         bool
		status, preErr string
		ran            []string
	}{
		"none does":      {ran: nil},
		"one does":       {second: prepared{does: true}, needed: true, ran: []string{"prebind b"}},
		"first one does": {first: prepared{does: true}, needed: true, ran: []string{"prebind a"}},
		"the second one refuses": {prepared{does: true}, prepared{fails: refused}, false, "no disk", "no disk",
			[]string{"prebind a"}},
		"it fails": {prepared{fails: broken}, prepared{does: true}, false,
			`running PreBindPreFlight plugin "a": broken`, `running PreBind plugin "a": broken`, nil},
	} {
		var log []string
		test.first.step, test.second.step = &step{name: "a", log: &log}, &step{name: "b", log: &log}
		f := &Profile{PreBinds: []PreBind{test.first, test.second}}
		needed, status := f.PreFlight(t.Context(), placement("p"))
		if needed != test.needed || text(status) != test.status {
			t.Errorf("%s: needed %v, %q", name, needed, text(status))
		}
		if status := f.PreBind(t.Context(), placement("p")); text(status) != test.preErr || !slices.Equal(log, test.ran) {
			t.Errorf("%s: %q, ran %v", name, text(status), log)
		}
	}
}

func text(s *Status) string {
	if s == nil {
		return ""
	}
	return s.Error().Error()
}

// TestBinders: the first that takes a pod binds it; it is an error if none does.
func TestBinders(t *testing.T) {
	var log []string
	f := profileOf(nil, &step{name: "a", log: &log})
	if status := f.Bind(t.Context(), placement("p")); text(status) != errUnbound.Error() {
		t.Errorf("no binder: %q", text(status))
	}
	log = nil
	f = profileOf(nil, &step{name: "b", log: &log}, &step{name: "c", log: &log})
	f.PostBinds = []PostBind{&step{name: "x", log: &log}, &step{name: "y", log: &log}}
	status := f.Bind(t.Context(), placement("p"))
	f.PostBind(t.Context(), placement("p"))
	if status != nil || !slices.Equal(log, []string{"bind b", "postbind x", "postbind y"}) {
		t.Errorf("%q, %v", text(status), log)
	}
}

func TestDefaultBinder(t *testing.T) {
	client := fake.NewClientset()
	var failure error
	var bound *v1.Binding
	client.PrependReactor("create", "pods", func(action ktesting.Action) (bool, runtime.Object, error) {
		if action.GetSubresource() == "binding" {
			bound = action.(ktesting.CreateAction).GetObject().(*v1.Binding)
		}
		return true, bound, failure
	})
	p := placement("p")
	p.Pod.Obj.UID = "u1"
	binder := &DefaultBinder{Client: client}
	if took, status := binder.Bind(t.Context(), p); !took || status != nil {
		t.Errorf("took %v, %q", took, text(status))
	}
	if bound == nil || bound.Name != "p" || bound.Namespace != "default" || bound.UID != "u1" ||
		bound.Target.Kind != "Node" || bound.Target.Name != "n" {
		t.Errorf("bound %+v", bound)
	}
	failure = errors.New("timeout")
	if took, status := binder.Bind(t.Context(), p); !took || text(status) != "timeout" || status.Plugin != BinderName {
		t.Errorf("took %v, %q", took, text(status))
	}
}

// TestObserver: every extension point is told with its outcome, and plug-ins only of pods that are measured.
func TestObserver(t *testing.T) {
	for _, measure := range []bool{false, true} {
		var log []string
		clock, told := clocktesting.NewFakeClock(time.Unix(7, 0)), &measured{}
		f := profileOf(NewWaiting(clock), &step{name: "a", fails: "prebind!", waits: time.Second, log: &log})
		f.Observer = told
		p := placement("p")
		p.Measure = measure
		_ = f.Reserve(t.Context(), p)
		_, _ = f.Permit(t.Context(), p)
		f.Waiting.Get("p").Reject("a", "full")
		_ = f.WaitOnPermit(t.Context(), p)
		_ = f.PreBind(t.Context(), p)
		f.Unreserve(t.Context(), p)
		want := []string{"Reserve Success", "Permit Success", "waited Unschedulable since 7", "PreBind Error",
			"Unreserve Success"}
		if measure {
			want = []string{"a at Reserve Success", "Reserve Success", "a at Permit Success", "Permit Success",
				"waited Unschedulable since 7", "a at PreBind Error", "PreBind Error", "a at Unreserve Success",
				"Unreserve Success"}
		}
		if !slices.Equal(told.log, want) {
			t.Errorf("measured %v: %q", measure, told.log)
		}
	}
	if label := (&Status{Unresolvable: true}).label(); label != "UnschedulableAndUnresolvable" {
		t.Errorf("label %s", label)
	}
}

// TestPermitRefusedAfterWait: a pod that a later plug-in refuses does not wait.
func TestPermitRefusedAfterWait(t *testing.T) {
	var log []string
	f := profileOf(NewWaiting(clocktesting.NewFakeClock(time.Unix(0, 0))),
		&step{name: "a", waits: time.Second, log: &log}, &step{name: "b", fails: "permit", log: &log})
	wait, status := f.Permit(t.Context(), placement("p"))
	if wait || text(status) != "permit refused" || f.Waiting.Get("p") != nil {
		t.Errorf("wait %v, %q", wait, text(status))
	}
	if status := f.WaitOnPermit(t.Context(), placement("p")); status != nil {
		t.Errorf("a pod that doesn't wait: %q", text(status))
	}
}

// TestWaits: how a pod's wait ends.
func TestWaits(t *testing.T) {
	for name, test := range map[string]struct {
		end       func(*Profile, *clocktesting.FakeClock, context.CancelFunc)
		status    string
		preempted bool
	}{
		"the attempt ends": {func(_ *Profile, _ *clocktesting.FakeClock, cancel context.CancelFunc) { cancel() },
			"context canceled", false},
		"preempted": {func(f *Profile, _ *clocktesting.FakeClock, _ context.CancelFunc) {
			f.Waiting.Get("p").Preempt("c", "made room")
		}, "made room", true},
		"the first word counts": {func(f *Profile, _ *clocktesting.FakeClock, _ context.CancelFunc) {
			w := f.Waiting.Get("p")
			if !w.Reject("a", "first") || w.Preempt("c", "second") || w.Reject("b", "third") {
				t.Error("a second decision was taken")
			}
			w.Allow("a")
			w.Allow("b")
		}, "first", false},
		"never longer than fifteen minutes": {func(f *Profile, clock *clocktesting.FakeClock, _ context.CancelFunc) {
			f.Waiting.Get("p").Allow("a")
			clock.Step(maxPermitWait)
		}, "rejected due to timeout after waiting 15m0s at plugin b", false},
		"an unknown plug-in allows nothing": {func(f *Profile, _ *clocktesting.FakeClock, cancel context.CancelFunc) {
			f.Waiting.Get("p").Allow("x")
			cancel()
		}, "context canceled", false},
	} {
		f, p, clock := waits(t)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		test.end(f, clock, cancel)
		status := f.WaitOnPermit(ctx, p)
		cancel()
		if text(status) != test.status || status.Preempted != test.preempted {
			t.Errorf("%s: %+v", name, status)
		}
		if f.Waiting.Reject("p") {
			t.Errorf("%s: the pod still waits", name)
		}
	}
}

func TestEach(t *testing.T) {
	waiting := NewWaiting(clocktesting.NewFakeClock(time.Unix(0, 0)))
	for _, name := range []string{"a", "b"} {
		waiting.add(placement(name).Pod.Obj, map[string]time.Duration{"x": time.Minute})
	}
	var names []string
	waiting.Each(func(w *WaitingPod) {
		names = append(names, w.GetPod().Name)
		w.Allow("x")
	})
	slices.Sort(names)
	if !slices.Equal(names, []string{"a", "b"}) {
		t.Errorf("visited %v", names)
	}
}

func TestMessages(t *testing.T) {
	for _, test := range []struct {
		status         Status
		err, condition string
	}{
		{Status{Err: errors.New("broken"), Reasons: []string{"x"}}, "broken", "broken"},
		{Status{Reasons: []string{"b", "a", "b"}}, "b, a, b", "0/1 nodes are available: 1 a, 2 b."},
	} {
		if e, m := test.status.Error().Error(), test.status.Message(); e != test.err || m != test.condition {
			t.Errorf("%q, %q", e, m)
		}
	}
}
