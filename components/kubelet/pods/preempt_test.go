package pods

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

func asking(uid types.UID, cpu string, guaranteed bool) *v1.Pod {
	p := simplePod(uid)
	if cpu == "" {
		return p
	}
	list := v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse("1Mi")}
	p.Spec.Containers[0].Resources.Requests = list
	if guaranteed {
		p.Spec.Containers[0].Resources.Limits = list
	}
	return p
}

func critical(p *v1.Pod) *v1.Pod {
	p.Spec.Priority = new(int32(2_000_000_000))
	return p
}

func smallNode() *v1.Node {
	return &v1.Node{Status: v1.NodeStatus{Allocatable: v1.ResourceList{v1.ResourceCPU: resource.MustParse("4"),
		v1.ResourceMemory: resource.MustParse("1Gi"), v1.ResourcePods: resource.MustParse("3")}}}
}

func TestVictims(t *testing.T) {
	for name, test := range map[string]struct {
		cpu    string
		others []*v1.Pod
		want   string
	}{
		"there is room":               {"1", []*v1.Pod{asking("a", "3", true)}, ""},
		"burstable before guaranteed": {"2", []*v1.Pod{asking("a", "2", true), asking("b", "2", false)}, "b"},
		"the one that suffices":       {"1", []*v1.Pod{asking("a", "3", false), asking("b", "1", false)}, "b"},
		"both":                        {"4", []*v1.Pod{asking("a", "2", true), asking("b", "2", false)}, "a b"},
		"place for a pod": {"1", []*v1.Pod{asking("a", "1", true), asking("b", "1", false),
			asking("c", "", false)}, "c"},
		"nothing helps":       {"5", []*v1.Pod{asking("a", "2", true)}, ""},
		"others are critical": {"3", []*v1.Pod{critical(asking("a", "2", true)), staticPod("s")}, ""},
	} {
		var got []string
		for _, victim := range victims(critical(asking("new", test.cpu, false)), smallNode(), test.others) {
			got = append(got, string(victim.UID))
		}
		slices.Sort(got)
		if names := strings.Join(got, " "); names != test.want {
			t.Errorf("%s: %q, want %q", name, names, test.want)
		}
	}
}

func TestCriticalPodsPreempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, stop := runManager(t, newGate(t))
		defer stop()
		m.Node = smallNode
		m.Set(asking("ordinary", "3", true))
		time.Sleep(time.Second)
		m.Set(asking("other", "2", true))
		time.Sleep(time.Second)
		m.Set(critical(asking("critical", "2", true)))
		time.Sleep(2 * time.Minute)
		if got := phaseOf(m, "critical"); got != v1.PodRunning {
			t.Errorf("critical pod is %s", got)
		}
		if other := m.Find("ns", "other").Status; other.Reason != "OutOfcpu" {
			t.Errorf("a pod that is not critical preempts: %+v", other)
		}
		victim := m.Find("ns", "ordinary").Status
		found := slices.ContainsFunc(victim.Conditions, func(c v1.PodCondition) bool {
			return c.Type == v1.DisruptionTarget && c.Reason == "TerminationByKubelet" &&
				c.Message == "Pod was preempted by Kubelet to accommodate a critical pod."
		})
		if victim.Phase != v1.PodFailed || victim.Reason != "Preempting" || !found ||
			victim.Message != "Preempted in order to admit critical pod" {
			t.Errorf("victim %+v", victim)
		}
	})
}
