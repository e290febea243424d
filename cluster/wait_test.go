package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestUntil: a wait ends with the first success; one that ends otherwise tells what was seen last, or who ended it.
func TestUntil(t *testing.T) {
	calls := 0
	err := until(t.Context(), func(context.Context) error {
		if calls++; calls < 3 {
			return errors.New("not yet")
		}
		return nil
	})
	if err != nil || calls != 3 {
		t.Errorf("%d calls, %v", calls, err)
	}
	cause := errors.New("the member ended")
	ctx, cancel := context.WithCancelCause(t.Context())
	err = until(ctx, func(context.Context) error {
		cancel(cause)
		return errors.New("not yet")
	})
	if !errors.Is(err, cause) {
		t.Errorf("ended by its owner: %v", err)
	}
	late, stop := context.WithDeadline(t.Context(), time.Now())
	defer stop()
	seen := false
	err = until(late, func(ctx context.Context) error {
		seen = true
		return fmt.Errorf("GET /readyz: %w", ctx.Err())
	})
	if !seen || err == nil || !strings.HasPrefix(err.Error(), "not in time; last seen: ") {
		t.Errorf("after its time: %v", err)
	}
}

// TestUntilKeepsTheReason: when time is over in the middle of a try, the reason is that of the try before.
func TestUntilKeepsTheReason(t *testing.T) {
	reason := errors.New("1 of 2 nodes registered")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	err := until(ctx, func(ctx context.Context) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return reason
	})
	if !errors.Is(err, reason) {
		t.Errorf("%v", err)
	}
}

// TestGuarded: a wait is ended by a member that ended, with the end of its log; one that fails by itself comes with
// the log of what it waited for.
func TestGuarded(t *testing.T) {
	var lines []string
	for i := range 40 {
		lines = append(lines, fmt.Sprint("line ", i))
	}
	made := func(fails map[string]error) (*start, *fakeInstance) {
		c, _ := faked(fails, "apiserver-0/kube-apiserver", "scheduler-0/kube-scheduler")
		instance := c.Member("scheduler-0").instance.(*fakeInstance)
		instance.lines = strings.Join(lines, "\n") + "\n"
		c.Member("apiserver-0").instance.(*fakeInstance).lines = "can't listen\n"
		return &start{cluster: c}, instance
	}
	forever := func(ctx context.Context) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}

	s, instance := made(nil)
	instance.running, instance.code = false, 3
	err := s.guarded(APIServer, forever)(t.Context())
	want := "scheduler-0 ended with code 3 ; its last lines:\n" + strings.Join(lines[40-tailLines:], "\n")
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}

	s, _ = made(map[string]error{"state scheduler-0": errors.New("engine is busy")})
	if err := s.guarded(APIServer, func(context.Context) error { return nil })(t.Context()); err != nil {
		t.Errorf("a wait that succeeds: %v", err)
	}

	s, _ = made(nil)
	broken := errors.New("GET /readyz: 500")
	err = s.guarded(APIServer, func(context.Context) error { return broken })(t.Context())
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "; the last lines of apiserver-0:\ncan't listen") {
		t.Errorf("a wait that fails: %v", err)
	}

	s, _ = made(map[string]error{"logs apiserver-0": errors.New("no log")})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = s.guarded(APIServer, forever)(ctx)
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "no log") {
		t.Errorf("a wait that the caller ends: %v", err)
	}
}

// TestSchedulable: a node is waited for until it is ready and the controllers have taken its taint away.
func TestSchedulable(t *testing.T) {
	condition := func(status corev1.ConditionStatus) []corev1.NodeCondition {
		return []corev1.NodeCondition{{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse},
			{Type: corev1.NodeReady, Status: status, Reason: "KubeletNotReady", Message: "no runtime"}}
	}
	notReady := []corev1.Taint{{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}}
	const unready = "node n is not ready: KubeletNotReady: no runtime"
	for name, c := range map[string]struct {
		conditions []corev1.NodeCondition
		taints     []corev1.Taint
		without    bool // controllers
		want       string
	}{
		"new":       {nil, nil, false, "node n has not reported yet"},
		"not ready": {condition(corev1.ConditionFalse), nil, false, unready},
		"unknown":   {condition(corev1.ConditionUnknown), nil, false, unready},
		"still tainted": {condition(corev1.ConditionTrue), notReady, false,
			"node n still has the taint node.kubernetes.io/not-ready"},
		"a taint of ours": {condition(corev1.ConditionTrue), []corev1.Taint{{Key: "mine"}}, false, ""},
		"ready":           {condition(corev1.ConditionTrue), nil, false, ""},
		"no controllers":  {condition(corev1.ConditionTrue), notReady, true, ""},
	} {
		cluster := &Cluster{config: newConfig("x")}
		cluster.config.without[ControllerManager] = c.without
		got := ""
		if err := cluster.config.schedulable(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"},
			Spec: corev1.NodeSpec{Taints: c.taints}, Status: corev1.NodeStatus{Conditions: c.conditions}}); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestStepsTellHowLongTheyTook: each step is reported when it begins and when it ends, with its error.
func TestStepsTellHowLongTheyTook(t *testing.T) {
	broken := errors.New("broken")
	var events []Event
	err := perform(t.Context(), func(e Event) { events = append(events, e) }, []step{
		{"first", func(context.Context) error { return nil }},
		{"second", func(context.Context) error { return broken }},
	})
	if err == nil || err.Error() != "second: broken" {
		t.Errorf("%v", err)
	}
	if len(events) != 4 || events[0] != (Event{Step: "first"}) || !events[1].Done || events[1].Err != nil ||
		events[2] != (Event{Step: "second"}) || events[3].Err != broken {
		t.Errorf("events %+v", events)
	}
}
