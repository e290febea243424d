package podgc

import (
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func pod(name, node string, phase v1.PodPhase, terminating bool, age time.Duration) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name,
		CreationTimestamp: metav1.NewTime(time.Unix(100000, 0).Add(-age))},
		Spec: v1.PodSpec{NodeName: node}, Status: v1.PodStatus{Phase: phase}}
	if terminating {
		p.DeletionTimestamp = &metav1.Time{}
	}
	return p
}

func TestPlan(t *testing.T) {
	out := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "out"},
		Spec: v1.NodeSpec{Taints: []v1.Taint{{Key: v1.TaintNodeOutOfService}}}}
	evicted := pod("evicted", "n", v1.PodFailed, false, time.Minute)
	evicted.Status.Reason = "Evicted"
	o := observed{
		nodes:     map[string]*v1.Node{"n": {ObjectMeta: metav1.ObjectMeta{Name: "n"}}, "out": out},
		missing:   map[string]bool{"gone": true},
		threshold: 1,
		pods: []*v1.Pod{
			pod("running", "n", v1.PodRunning, false, 0),
			pod("orphan", "gone", v1.PodRunning, false, 0),
			pod("quarantined", "unknown", v1.PodRunning, false, 0),
			pod("unscheduled", "", v1.PodPending, false, 0),
			pod("unscheduled-leaving", "", v1.PodPending, true, 0),
			pod("out-of-service", "out", v1.PodRunning, true, 0),
			pod("on-out-staying", "out", v1.PodRunning, false, 0),
			pod("leaving", "n", v1.PodRunning, true, 0),
			pod("old", "n", v1.PodSucceeded, false, time.Hour),
			pod("young", "n", v1.PodSucceeded, false, time.Second),
			evicted,
		},
	}
	var got []string
	for _, d := range plan(o) {
		got = append(got, fmt.Sprint(d.pod.Name, " ", d.reason))
	}
	want := []string{"orphan DeletionByPodGC", "unscheduled-leaving ", "out-of-service ", "evicted ", "old "}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	o.threshold = 0
	if n := len(plan(o)); n != 3 {
		t.Errorf("without a threshold %d pods go, want 3", n)
	}
}
