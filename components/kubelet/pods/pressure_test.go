package pods

import (
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestRefusePressure(t *testing.T) {
	burstable := simplePod("burstable")
	burstable.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceMemory: resource.MustParse("1Mi")}
	tolerant := simplePod("tolerant")
	tolerant.Spec.Tolerations = []v1.Toleration{{Key: v1.TaintNodeMemoryPressure, Operator: v1.TolerationOpExists}}
	const memory, disk = v1.NodeMemoryPressure, v1.NodeDiskPressure
	for name, test := range map[string]struct {
		pod        *v1.Pod
		conditions []v1.NodeConditionType
		want       string
	}{
		"nothing lacks": {pod: simplePod("p")},
		"best effort": {simplePod("p"), []v1.NodeConditionType{memory},
			"The node had condition: [MemoryPressure]. "},
		"burstable":    {pod: burstable, conditions: []v1.NodeConditionType{memory}},
		"tolerates it": {pod: tolerant, conditions: []v1.NodeConditionType{memory}},
		"static":       {pod: staticPod("p"), conditions: []v1.NodeConditionType{disk}},
		"disk":         {burstable, []v1.NodeConditionType{disk}, "The node had condition: [DiskPressure]. "},
		"memory tolerated, not so": {tolerant, []v1.NodeConditionType{disk, memory},
			"The node had condition: [DiskPressure MemoryPressure]. "},
	} {
		got := ""
		if why := refusePressure(test.pod, test.conditions); why != nil {
			got = why.message
			if why.reason != "Evicted" || !why.never {
				t.Errorf("%s: %+v", name, why)
			}
		}
		if got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestEvictedPodsFailAndSayWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, stop := runManager(t, newGate(t))
		defer stop()
		m.Set(simplePod("p"))
		time.Sleep(time.Second)
		active := m.Active()
		if len(active) != 1 {
			t.Fatalf("active: %v", active)
		}
		m.Evict(active[0], "The node was low on resource: memory. ", time.Second)
		time.Sleep(time.Minute)
		s := m.Find("ns", "p").Status
		if s.Phase != v1.PodFailed || s.Reason != "Evicted" || s.Message != "The node was low on resource: memory. " {
			t.Errorf("status %+v", s)
		}
		found := false
		for _, c := range s.Conditions {
			found = found || c.Type == v1.DisruptionTarget && c.Status == v1.ConditionTrue &&
				c.Reason == "TerminationByKubelet" && c.Message == s.Message
		}
		if !found || len(m.Active()) != 0 {
			t.Errorf("conditions %+v, active %v", s.Conditions, m.Active())
		}
	})
}
