package defaultpreemption

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/scheduler/cycle"
	"quintet.dev/quintet/components/scheduler/plugins/interpodaffinity"
	"quintet.dev/quintet/components/scheduler/plugins/noderesources"
	"quintet.dev/quintet/components/scheduler/plugins/tainttoleration"
	"quintet.dev/quintet/components/scheduler/schedulertest"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

func schedule(s *snapshot.Snapshot, pod *v1.Pod, nominated string) *cycle.Decision {
	profile := &cycle.Profile{
		Filters:     []cycle.Filter{tainttoleration.Plugin{}, &noderesources.Fit{}, &interpodaffinity.Plugin{}},
		PostFilters: []cycle.PostFilter{&Plugin{Percentage: 10, Absolute: 100}},
	}
	return profile.Schedule(s, cycle.Request{Pod: snapshot.NewPod(pod), Nominated: nominated})
}

func budget(app string, allowed int32) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: app},
		Spec: policyv1.PodDisruptionBudgetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
		},
		Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed},
	}
}

func TestPicks(t *testing.T) {
	node := func(name string) metav1.Object { return schedulertest.Node(name, "cpu=2") }
	pod := func(name, spec string) metav1.Object { return schedulertest.Pod(name, spec, nil) }
	avoids := schedulertest.Pod("avoids", "node=a priority=1", func(p *v1.Pod) {
		p.Spec.Affinity = &v1.Affinity{
			PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
				TopologyKey:   v1.LabelHostname,
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "p"}},
			}}},
		}
	})
	cases := map[string]struct {
		objects []metav1.Object
		budgets []*policyv1.PodDisruptionBudget
		node    string
		victims []string
	}{
		"only as many as needed": {
			[]metav1.Object{node("a"), pod("1", "node=a cpu=1 priority=1"), pod("2", "node=a cpu=1 priority=2")}, nil,
			"a", []string{"1"}},
		"not the equally important": {
			[]metav1.Object{node("a"), pod("1", "node=a cpu=2 priority=10")}, nil, "", nil},
		"the least important": {
			[]metav1.Object{node("a"), node("b"), pod("1", "node=a cpu=2 priority=5"),
				pod("2", "node=b cpu=2 priority=4")}, nil, "b", []string{"2"}},
		"the fewest": {
			[]metav1.Object{node("a"), node("b"), pod("1", "node=a cpu=1500m priority=5"), pod("2",
				"node=a cpu=500m priority=5"),
				pod("3", "node=b cpu=750m priority=5"), pod("4", "node=b cpu=750m priority=5"),
				pod("5", "node=b cpu=500m priority=5")}, nil, "a", []string{"1"}},
		"the latest": {
			[]metav1.Object{node("a"), node("b"), pod("1", "node=a cpu=2 priority=5 started=100"),
				pod("2", "node=b cpu=2 priority=5 started=200")}, nil, "b", []string{"2"}},
		"within budgets": {
			[]metav1.Object{node("a"), node("b"), pod("1", "node=a cpu=2 priority=1 app=x"),
				pod("2", "node=b cpu=2 priority=5")},
			[]*policyv1.PodDisruptionBudget{budget("x", 0)}, "b", []string{"2"}},
		"beyond budgets if it must": {
			[]metav1.Object{node("a"), pod("1", "node=a cpu=2 priority=1 app=x")},
			[]*policyv1.PodDisruptionBudget{budget("x", 0)}, "a", []string{"1"}},
		"spares the protected": {
			[]metav1.Object{node("a"), pod("1", "node=a cpu=1 priority=1 app=x"), pod("2", "node=a cpu=1 priority=5")},
			[]*policyv1.PodDisruptionBudget{budget("x", 0)}, "a", []string{"2"}},
		"anti-affinity of the victim": {
			[]metav1.Object{node("a"), avoids}, nil, "a", []string{"avoids"}},
	}
	for name, c := range cases {
		s := schedulertest.Snapshot(c.objects...)
		for _, b := range c.budgets {
			s.SetBudget(b)
		}
		d := schedule(s, schedulertest.Pod("p", "cpu=1 priority=10 app=p", nil), "")
		if d.PostFilterResult == nil {
			t.Errorf("%s: the pod needs no room: %+v", name, d)
			continue
		}
		var victims []string
		for _, v := range d.PostFilterResult.Victims {
			victims = append(victims, v.Obj.Name)
		}
		if d.PostFilterResult.Node != c.node || len(victims) != len(c.victims) ||
			(len(victims) > 0 && victims[0] != c.victims[0]) {
			t.Errorf("%s: node %q victims %v, want %q %v (%s)", name, d.PostFilterResult.Node, victims, c.node,
				c.victims, d.PostFilterResult.Message)
		}
	}
}

func TestSays(t *testing.T) {
	s := func() *snapshot.Snapshot {
		return schedulertest.Snapshot(
			schedulertest.Node("a", "cpu=2"), schedulertest.Node("b", "cpu=1"),
			schedulertest.Node("c", "cpu=4 taint=NoSchedule"),
			schedulertest.Pod("1", "node=a cpu=1 priority=10", nil),
			schedulertest.Pod("2", "node=a cpu=500m priority=1", nil))
	}
	cases := map[string]struct {
		spec   string
		change func(*v1.Pod)
		want   string
	}{
		"no lower priority": {"cpu=2", nil,
			"preemption: 0/3 nodes are available: 1 No preemption victims found for incoming pod, 2 Preemption is not helpful " +
				"for scheduling."},
		"not enough": {"cpu=2 priority=5", nil,
			"preemption: 0/3 nodes are available: 1 Insufficient cpu, 2 Preemption is not helpful for scheduling."},
		"never": {"cpu=2 priority=20", func(p *v1.Pod) { p.Spec.PreemptionPolicy = ptr.To(v1.PreemptNever) },
			"preemption: not eligible due to preemptionPolicy=Never."},
	}
	for name, c := range cases {
		d := schedule(s(), schedulertest.Pod("p", c.spec, c.change), "")
		if d.PostFilterResult == nil || d.PostFilterResult.Message != c.want {
			t.Errorf("%s: got %+v, want %q", name, d.PostFilterResult, c.want)
		}
	}
}

func TestWaitsForVictims(t *testing.T) {
	leaving := schedulertest.Pod("leaving", "node=a cpu=1 priority=1", func(p *v1.Pod) {
		p.DeletionTimestamp = &metav1.Time{}
		p.Status.Conditions = []v1.PodCondition{{Type: v1.DisruptionTarget, Status: v1.ConditionTrue,
			Reason: v1.PodReasonPreemptionByScheduler}}
	})
	s := schedulertest.Snapshot(schedulertest.Node("a", "cpu=2"), leaving,
		schedulertest.Pod("other", "node=a cpu=1 priority=2", nil))
	d := schedule(s, schedulertest.Pod("p", "cpu=1 priority=10", nil), "a")
	if d.PostFilterResult == nil || !d.PostFilterResult.KeepNomination || len(d.PostFilterResult.Victims) > 0 {
		t.Errorf("does not wait: %+v", d.PostFilterResult)
	}
}
