package pods

import (
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func condition(t v1.PodConditionType, status v1.ConditionStatus, at time.Time) v1.PodCondition {
	return v1.PodCondition{Type: t, Status: status, LastTransitionTime: metav1.NewTime(at)}
}

func TestLifecycle(t *testing.T) {
	for _, c := range []struct {
		phase                      v1.PodPhase
		deleted                    bool
		active, ended, terminating bool
	}{
		{phase: "", active: true},
		{phase: v1.PodPending, active: true},
		{phase: v1.PodRunning, active: true},
		{phase: v1.PodUnknown, active: true},
		{phase: v1.PodSucceeded, ended: true},
		{phase: v1.PodFailed, ended: true},
		{phase: v1.PodPending, deleted: true, terminating: true},
		{phase: v1.PodRunning, deleted: true, terminating: true},
		{phase: v1.PodSucceeded, deleted: true, ended: true},
		{phase: v1.PodFailed, deleted: true, ended: true},
	} {
		pod := &v1.Pod{Status: v1.PodStatus{Phase: c.phase}}
		if c.deleted {
			pod.DeletionTimestamp = &metav1.Time{}
		}
		if Active(pod) != c.active || Ended(pod) != c.ended || Terminating(pod) != c.terminating {
			t.Errorf("%q, deleted %v: active %v, ended %v, terminating %v", c.phase, c.deleted, Active(pod), Ended(pod),
				Terminating(pod))
		}
		exactly := 0
		for _, is := range []bool{Active(pod), Ended(pod), Terminating(pod)} {
			if is {
				exactly++
			}
		}
		if exactly != 1 {
			t.Errorf("%q, deleted %v is %d of active, ended and terminating", c.phase, c.deleted, exactly)
		}
	}
}

func TestReadiness(t *testing.T) {
	at := time.Unix(1000, 0)
	for name, c := range map[string]struct {
		conditions []v1.PodCondition
		ready      bool
	}{
		"none":         {},
		"only another": {conditions: []v1.PodCondition{condition(v1.ContainersReady, v1.ConditionTrue, at)}},
		"false":        {conditions: []v1.PodCondition{condition(v1.PodReady, v1.ConditionFalse, at)}},
		"unknown":      {conditions: []v1.PodCondition{condition(v1.PodReady, v1.ConditionUnknown, at)}},
		"true, after one": {conditions: []v1.PodCondition{condition(v1.ContainersReady, v1.ConditionFalse, at),
			condition(v1.PodReady, v1.ConditionTrue, at)}, ready: true},
	} {
		pod := &v1.Pod{Status: v1.PodStatus{Conditions: c.conditions}}
		since := ReadySince(pod)
		if Ready(pod) != c.ready || since.IsZero() == c.ready || (c.ready && !since.Time.Equal(at)) {
			t.Errorf("%s: ready %v since %v", name, Ready(pod), since)
		}
	}
	if Condition(&v1.Pod{}, v1.PodReady) != nil {
		t.Error("a condition that is not there")
	}
}

// TestAvailableWithoutTransition: a condition whose time is unknown can't tell how long the pod has been ready.
func TestAvailableWithoutTransition(t *testing.T) {
	pod := &v1.Pod{Status: v1.PodStatus{Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}}}
	now := time.Unix(1000, 0)
	if available, wait := Available(pod, 0, now); !available || wait != 0 {
		t.Errorf("without minReadySeconds: %v, %v", available, wait)
	}
	if available, wait := Available(pod, 5, now); available || wait != 0 {
		t.Errorf("with minReadySeconds: %v, %v", available, wait)
	}
}

func TestFilter(t *testing.T) {
	all := []*v1.Pod{{Status: v1.PodStatus{Phase: v1.PodFailed}}, {}, {Status: v1.PodStatus{Phase: v1.PodSucceeded}}, {}}
	if got := Filter(all, Active); !slices.Equal(got, []*v1.Pod{all[1], all[3]}) {
		t.Errorf("%v", got)
	}
	if got := Filter(nil, Active); got != nil {
		t.Errorf("of none: %v", got)
	}
}

func TestDisruptionPatch(t *testing.T) {
	now, before := time.Unix(1000, 0), time.Unix(500, 0)
	marked := func(status v1.ConditionStatus) []v1.PodCondition {
		return []v1.PodCondition{condition(v1.PodReady, v1.ConditionTrue, before), condition(v1.DisruptionTarget, status,
			before)}
	}
	for name, c := range map[string]struct {
		status v1.PodStatus
		fail   bool
		want   string // since when, phase
	}{
		"stays as it is": {status: v1.PodStatus{Phase: v1.PodRunning}, want: `"1970-01-01T00:16:40Z"` + ` `},
		"fails": {status: v1.PodStatus{Phase: v1.PodRunning}, fail: true,
			want: `"1970-01-01T00:16:40Z" Failed`},
		"failed already": {status: v1.PodStatus{Phase: v1.PodFailed}, fail: true, want: `"1970-01-01T00:16:40Z"` +
			` `},
		"succeeded": {status: v1.PodStatus{Phase: v1.PodSucceeded}, fail: true, want: `"1970-01-01T00:16:40Z"` +
			` `},
		"marked before": {status: v1.PodStatus{Conditions: marked(v1.ConditionTrue)},
			want: `"1970-01-01T00:08:20Z"` + ` `},
		"marked and taken back": {status: v1.PodStatus{Conditions: marked(v1.ConditionFalse)},
			want: `"1970-01-01T00:16:40Z"` + ` `},
		"marked before, to fail": {status: v1.PodStatus{Conditions: marked(v1.ConditionTrue)}, fail: true,
			want: `"1970-01-01T00:08:20Z" Failed`},
	} {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u", Generation: 2}, Status: c.status}
		phase := ""
		var since string
		_, _ = fmt.Sscan(c.want, &since, &phase)
		want := `{"metadata":{"uid":"u"},"status":{"conditions":[{"type":"DisruptionTarget","observedGeneration":2,` +
			`"status":"True","lastProbeTime":null,"lastTransitionTime":` + since + `,"reason":"R","message":"m"}]`
		if phase != "" {
			want += `,"phase":"Failed"`
		}
		want += "}}"
		if got := string(DisruptionPatch(pod, "R", "m", c.fail, now)); got != want {
			t.Errorf("%s:\n%s, want\n%s", name, got, want)
		}
	}
	if got := string(FailPatch(&v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}})); got != `{"metadata":{"uid":"u"},`+
		`"status":{"phase":"Failed"}}` {
		t.Error(got)
	}
}
