package replicaset

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestAges: only ready pods have an age, of which the youngest is the measure.
func TestAges(t *testing.T) {
	now := time.Unix(10000, 0)
	pod := func(age time.Duration, ready v1.ConditionStatus) *v1.Pod {
		return &v1.Pod{Status: v1.PodStatus{Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: ready,
			LastTransitionTime: metav1.NewTime(now.Add(-age))}}}}
	}
	young, old, unready := pod(time.Minute, v1.ConditionTrue), pod(3*time.Minute, v1.ConditionTrue),
		pod(time.Second, v1.ConditionFalse)
	all := []*v1.Pod{old, unready, young, {}}
	if got := fmt.Sprint(ages(all, []*v1.Pod{unready, old, young, {}}, now)); got != "[3 1]" {
		t.Error(got)
	}
	if got := ages([]*v1.Pod{unready}, []*v1.Pod{unready}, now); got != nil {
		t.Error(got)
	}
}
