package tainteviction

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestDeadline(t *testing.T) {
	start := time.Unix(1000, 0)
	since := func(v1.Taint) time.Time { return start }
	execute := func(key string) v1.Taint { return v1.Taint{Key: key, Effect: v1.TaintEffectNoExecute} }
	tolerates := func(key string, seconds *int64) v1.Toleration {
		return v1.Toleration{Key: key, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute,
			TolerationSeconds: seconds}
	}
	for name, tc := range map[string]struct {
		taints      []v1.Taint
		tolerations []v1.Toleration
		leave       bool
		after       time.Duration
	}{
		"no taint":      {},
		"other effect":  {taints: []v1.Taint{{Key: "a", Effect: v1.TaintEffectNoSchedule}}},
		"not tolerated": {taints: []v1.Taint{execute("a")}, leave: true},
		"for ever":      {taints: []v1.Taint{execute("a")}, tolerations: []v1.Toleration{tolerates("a", nil)}},
		"for a while": {taints: []v1.Taint{execute("a")},
			tolerations: []v1.Toleration{tolerates("a", ptr.To[int64](300))}, leave: true, after: 300 * time.Second},
		"negative is zero": {taints: []v1.Taint{execute("a")},
			tolerations: []v1.Toleration{tolerates("a", ptr.To[int64](-5))}, leave: true},
		"the shortest": {taints: []v1.Taint{execute("a"), execute("b")},
			tolerations: []v1.Toleration{tolerates("a", ptr.To[int64](300)), tolerates("b", ptr.To[int64](10))},
			leave:       true, after: 10 * time.Second},
		"one not tolerated": {taints: []v1.Taint{execute("a"), execute("b")},
			tolerations: []v1.Toleration{tolerates("a", ptr.To[int64](300))}, leave: true},
		"two for one taint": {taints: []v1.Taint{execute("a")},
			tolerations: []v1.Toleration{tolerates("a", nil), tolerates("", ptr.To[int64](7))}, leave: true,
			after: 7 * time.Second},
	} {
		at, leave := deadline(tc.taints, tc.tolerations, since)
		if leave != tc.leave || (leave && at.Sub(start) != tc.after) {
			t.Errorf("%s: leave %v after %v; want %v after %v", name, leave, at.Sub(start), tc.leave, tc.after)
		}
	}
}

func TestLaterPodHasItsTime(t *testing.T) {
	added := metav1.NewTime(time.Unix(1000, 0))
	bound := metav1.NewTime(time.Unix(2000, 0))
	taint := v1.Taint{Key: "a", Effect: v1.TaintEffectNoExecute, TimeAdded: &added}
	c := &Controller{}
	early := &v1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(time.Unix(500, 0))}}
	late := &v1.Pod{Status: v1.PodStatus{Conditions: []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue,
		LastTransitionTime: bound}}}}
	if at := c.since(early)(taint); !at.Equal(added.Time) {
		t.Errorf("pod before the taint: %v", at)
	}
	if at := c.since(late)(taint); !at.Equal(bound.Time) {
		t.Errorf("pod after the taint: %v", at)
	}
}
