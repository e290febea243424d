package pods

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/kubelet/cgroups"
	"quintet.dev/quintet/components/kubelet/plan"
	"quintet.dev/quintet/components/kubelet/runtime"
)

func TestDecideEnd(t *testing.T) {
	now := time.Unix(1000, 0)
	deleted := func(grace int64) func(*state) {
		return func(s *state) {
			s.pod.DeletionTimestamp, s.pod.DeletionGracePeriodSeconds = &metav1.Time{Time: now}, &grace
		}
	}
	both := func(changes ...func(*state)) func(*state) {
		return func(s *state) {
			for _, change := range changes {
				change(s)
			}
		}
	}
	gone := func(s *state) { s.gone = true }
	for name, test := range map[string]struct {
		change func(*state)
		ends   bool
		grace  time.Duration
	}{
		"runs":             {change: func(*state) {}},
		"deleted":          {change: deleted(7), ends: true, grace: 7 * time.Second},
		"deleted by force": {change: both(deleted(0), gone), ends: true, grace: time.Second},
		"gone":             {change: gone, ends: true, grace: 30 * time.Second},
		"in a final phase": {change: func(s *state) { s.pod.Status.Phase = v1.PodFailed }, ends: true,
			grace: 30 * time.Second},
		"rejected": {change: func(s *state) { s.rejected = &rejection{} }, ends: true,
			grace: 30 * time.Second},
		"evicted": {change: func(s *state) { s.rejected = &rejection{within: time.Second} }, ends: true,
			grace: time.Second},
		"is ending already": {change: both(deleted(7),
			func(s *state) { s.ending = &plan.Stop{Grace: 9 * time.Second} }), ends: true, grace: 7 * time.Second},
		"had less time left": {change: both(deleted(7),
			func(s *state) { s.ending = &plan.Stop{Grace: 2 * time.Second} }), ends: true, grace: 2 * time.Second},
	} {
		s := newState(&v1.Pod{})
		test.change(&s)
		s.decideEnd(now)
		if (s.ending != nil) != test.ends || test.ends && s.ending.Grace != test.grace {
			t.Errorf("%s: %+v, want %v", name, s.ending, test.grace)
		}
	}
}

func TestExceedsDeadline(t *testing.T) {
	begin := metav1.NewTime(time.Unix(1000, 0))
	for name, test := range map[string]struct {
		change func(*state)
		at     int64
		want   bool
	}{
		"in time":          {at: 1009},
		"too long":         {at: 1010, want: true},
		"not started":      {change: func(s *state) { s.pod.Status.StartTime = nil }, at: 1010},
		"no deadline":      {change: func(s *state) { s.pod.Spec.ActiveDeadlineSeconds = nil }, at: 1010},
		"is ending":        {change: func(s *state) { s.ending = &plan.Stop{} }, at: 1010},
		"in a final phase": {change: func(s *state) { s.pod.Status.Phase = v1.PodSucceeded }, at: 1010},
		"started later": {change: func(s *state) {
			later := metav1.NewTime(begin.Add(time.Second))
			s.status = &v1.PodStatus{StartTime: &later}
		}, at: 1010},
	} {
		s := newState(&v1.Pod{Spec: v1.PodSpec{ActiveDeadlineSeconds: new(int64(10))},
			Status: v1.PodStatus{StartTime: &begin}})
		if test.change != nil {
			test.change(&s)
		}
		if got := s.exceedsDeadline(time.Unix(test.at, 0)); (got != nil) != test.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestSetPodAsksForObservation(t *testing.T) {
	for name, test := range map[string]struct {
		change      func(*v1.Pod)
		want, stale bool
	}{
		"echo of the status": {change: func(p *v1.Pod) { p.ResourceVersion = "2" }},
		"another status":     {change: func(p *v1.Pod) { p.Status.Phase = v1.PodRunning }, want: true},
		"labels": {change: func(p *v1.Pod) { p.Labels = map[string]string{"a": "b"} }, want: true,
			stale: true},
		"deleted":       {change: func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{} }, want: true},
		"less grace":    {change: func(p *v1.Pod) { p.DeletionGracePeriodSeconds = new(int64) }, want: true},
		"specification": {change: func(p *v1.Pod) { p.Spec.Containers = []v1.Container{{Name: "c"}} }, want: true},
	} {
		s := newState(&v1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "1"},
			Status: v1.PodStatus{Phase: v1.PodPending}})
		s.status = &v1.PodStatus{Phase: v1.PodPending}
		pod := s.pod.DeepCopy()
		test.change(pod)
		if got := s.setPod(pod); got != test.want || s.stale != test.stale || s.pod != pod {
			t.Errorf("%s: %v, stale: %v", name, got, s.stale)
		}
	}
}

// While containers are resized the pod's control group has what they need before and afterwards.
func TestNextLimits(t *testing.T) {
	small, large := cgroups.Limits{CPUShares: 1, MemoryBytes: 100}, cgroups.Limits{CPUShares: 2, MemoryBytes: 200}
	for name, test := range map[string]struct {
		sandbox         string // whose limits they are
		has, want, next cgroups.Limits
		left, due, done bool
		ending          bool
	}{
		"the first":        {want: small, next: small, due: true, done: true},
		"of an earlier":    {sandbox: "old", has: small, want: small, next: small, due: true, done: true},
		"has them":         {sandbox: "s", has: small, want: small, next: small, done: true},
		"shrinks":          {sandbox: "s", has: large, want: small, next: small, due: true},
		"shrinks, at last": {sandbox: "s", has: large, want: small, next: large, left: true},
		"grows at first":   {sandbox: "s", has: small, want: large, next: large, left: true, due: true},
		"is ending":        {sandbox: "s", has: small, want: large, next: large, ending: true, done: true},
	} {
		s := newState(&v1.Pod{})
		s.observed = runtime.Pod{Sandboxes: []runtime.Sandbox{{ID: "s", State: runtime.Running}}}
		s.resize.sandbox, s.resize.limits = test.sandbox, test.has
		if test.ending {
			s.ending = &plan.Stop{}
		}
		next, due := s.nextLimits(test.want, test.left)
		if next != test.next || due != test.due || s.limited(test.want) != test.done {
			t.Errorf("%s: %+v, due: %v, done: %v", name, next, due, s.limited(test.want))
		}
	}
}

func TestWantedPorts(t *testing.T) {
	s := newState(&v1.Pod{})
	sandbox := runtime.Sandbox{ID: "s", State: runtime.Running, IPs: []string{"10.1.0.2"}}
	same := func() bool {
		wanted := s.wantedPorts()
		return s.ports.equal(&wanted)
	}
	if same() {
		t.Error("ports of before the kubelet are left as they are")
	}
	for _, observed := range []runtime.Pod{{}, {Sandboxes: []runtime.Sandbox{sandbox}}} {
		if s.observed = observed; same() {
			t.Errorf("a change is not seen: %+v", observed)
		}
		if s.ports = s.wantedPorts(); !same() {
			t.Errorf("set again and again: %+v", observed)
		}
	}
	sandbox.State = runtime.Exited
	if s.observed.Sandboxes[0] = sandbox; same() {
		t.Error("the end of a sandbox is not seen")
	}
}
