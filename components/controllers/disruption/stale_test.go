package disruption

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func marked(reason string, status v1.ConditionStatus, at time.Time, change ...func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Generation: 3},
		Status: v1.PodStatus{Phase: v1.PodRunning, Conditions: []v1.PodCondition{
			{Type: v1.PodReady, Status: v1.ConditionTrue},
			{Type: v1.DisruptionTarget, Status: status, Reason: reason, Message: "m", LastTransitionTime: metav1.NewTime(at)},
		}}}
	for _, c := range change {
		c(p)
	}
	return p
}

func TestUntilStale(t *testing.T) {
	now := time.Unix(10000, 0)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for name, c := range map[string]struct {
		pod    *v1.Pod
		wait   time.Duration
		marked bool
	}{
		"no condition":       {pod: &v1.Pod{}},
		"just marked":        {marked("EvictionByEvictionAPI", v1.ConditionTrue, now), 2 * time.Minute, true},
		"halfway":            {marked("PreemptionByScheduler", v1.ConditionTrue, ago(time.Minute)), time.Minute, true},
		"at its end":         {marked("EvictionByEvictionAPI", v1.ConditionTrue, ago(2*time.Minute)), 0, true},
		"long over":          {marked("DeletionByTaintManager", v1.ConditionTrue, ago(time.Hour)), 0, true},
		"taken back already": {pod: marked("", v1.ConditionFalse, ago(time.Hour))},
		"by the kubelet":     {pod: marked(v1.PodReasonTerminationByKubelet, v1.ConditionTrue, ago(time.Hour))},
		"being deleted": {pod: marked("EvictionByEvictionAPI", v1.ConditionTrue, ago(time.Hour),
			func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: now} })},
		"failed": {pod: marked("EvictionByEvictionAPI", v1.ConditionTrue, ago(time.Hour),
			func(p *v1.Pod) { p.Status.Phase = v1.PodFailed })},
		"succeeded": {pod: marked("EvictionByEvictionAPI", v1.ConditionTrue, ago(time.Hour),
			func(p *v1.Pod) { p.Status.Phase = v1.PodSucceeded })},
	} {
		if wait, marked := untilStale(c.pod, now); wait != c.wait || marked != c.marked {
			t.Errorf("%s: %v, %v; want %v, %v", name, wait, marked, c.wait, c.marked)
		}
	}
}

func TestWithoutDisruption(t *testing.T) {
	now := time.Unix(10000, 0)
	before := marked("EvictionByEvictionAPI", v1.ConditionTrue, now.Add(-time.Hour))
	after := withoutDisruption(before, now)
	want := v1.PodCondition{Type: v1.DisruptionTarget, Status: v1.ConditionFalse, ObservedGeneration: 3,
		LastTransitionTime: metav1.NewTime(now)}
	if got := after.Status.Conditions; len(got) != 2 || got[0].Type != v1.PodReady || got[1] != want {
		t.Errorf("%+v", got)
	}
	if before.Status.Conditions[1].Status != v1.ConditionTrue {
		t.Error("the informer's pod was changed")
	}
}
