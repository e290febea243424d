package podtopologyspread

import (
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/scheduler/cycle"
	"quintet.dev/quintet/components/scheduler/queue"
	"quintet.dev/quintet/components/scheduler/schedulertest"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

func spreadBy(key string, action v1.UnsatisfiableConstraintAction,
	change func(*v1.TopologySpreadConstraint)) func(*v1.Pod) {
	return func(p *v1.Pod) {
		c := v1.TopologySpreadConstraint{
			TopologyKey: key, MaxSkew: 1, WhenUnsatisfiable: action,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}},
		}
		if change != nil {
			change(&c)
		}
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, c)
	}
}

func zones() *snapshot.Snapshot {
	return schedulertest.Snapshot(
		schedulertest.Node("a1", "zone=a v=1"), schedulertest.Node("a2", "zone=a"),
		schedulertest.Node("b1", "zone=b v=1"),
		schedulertest.Node("c1", "zone=c taint=NoSchedule"), schedulertest.Node("none", ""),
		schedulertest.Pod("1", "node=a1 app=x", nil), schedulertest.Pod("2", "node=b1 app=x", nil),
		schedulertest.Pod("3", "node=b1 app=y", nil),
		schedulertest.Pod("4", "node=b1 app=x", func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{} }),
		schedulertest.Pod("5", "node=b1 app=x", func(p *v1.Pod) { p.Namespace = "other" }))
}

func TestFilter(t *testing.T) {
	const noLabel = "!" + reason + " (missing required label)"
	honor := ptr.To(v1.NodeInclusionPolicyHonor)
	cases := map[string]struct {
		change func(*v1.Pod)
		want   map[string]string
	}{
		"no constraint": {nil, map[string]string{}},
		"only a wish":   {spreadBy("zone", v1.ScheduleAnyway, nil), map[string]string{}},
		"c has none": {spreadBy("zone", v1.DoNotSchedule, nil),
			map[string]string{"a1": reason, "a2": reason, "b1": reason, "none": noLabel}},
		"skew 2": {spreadBy("zone", v1.DoNotSchedule, func(c *v1.TopologySpreadConstraint) { c.MaxSkew = 2 }),
			map[string]string{"none": noLabel}},
		"taints honored": {spreadBy("zone", v1.DoNotSchedule,
			func(c *v1.TopologySpreadConstraint) { c.NodeTaintsPolicy = honor }),
			map[string]string{"none": noLabel}},
		"too few domains": {spreadBy("zone", v1.DoNotSchedule, func(c *v1.TopologySpreadConstraint) {
			c.NodeTaintsPolicy, c.MinDomains = honor, ptr.To[int32](3)
		}), map[string]string{"a1": reason, "a2": reason, "b1": reason, "none": noLabel}},
		"selected nodes only": {func(p *v1.Pod) {
			spreadBy("zone", v1.DoNotSchedule, nil)(p)
			p.Spec.NodeSelector = map[string]string{"v": "1"}
		}, map[string]string{"none": noLabel}},
		"label keys": {func(p *v1.Pod) {
			spreadBy("zone", v1.DoNotSchedule,
				func(c *v1.TopologySpreadConstraint) { c.MatchLabelKeys = []string{"hash"} })(p)
			p.Labels["hash"] = "new"
		}, map[string]string{"none": noLabel}},
		"does not match itself": {func(p *v1.Pod) {
			spreadBy("zone", v1.DoNotSchedule, nil)(p)
			p.Labels["app"] = "z"
		}, map[string]string{"none": noLabel}},
	}
	for name, c := range cases {
		if got := schedulertest.Check(System(), schedulertest.Pod("p", "app=x", c.change),
			zones()); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

func TestFollows(t *testing.T) {
	s := zones()
	test, _ := System().Filter(snapshot.NewPod(schedulertest.Pod("p", "app=x",
		spreadBy("zone", v1.DoNotSchedule, nil))), s)
	a, c := s.Node("a1"), s.Node("c1")
	other := snapshot.NewPod(schedulertest.Pod("1", "app=x", nil))
	test.(cycle.PreFilterExtensions).Follow(other, a, -1)
	if test.Check(a) != nil {
		t.Error("a pod went, but its domain is still full")
	}
	test.(cycle.PreFilterExtensions).Follow(other, a, 1)
	if test.Check(a) == nil {
		t.Error("the pod is back, but its domain is not full")
	}
	test.(cycle.PreFilterExtensions).Follow(other, c, 1)
	if test.Check(a) != nil {
		t.Error("the emptiest domain got a pod, but the others are still full")
	}
}

func TestScore(t *testing.T) {
	s := zones()
	got := schedulertest.Scores(System(), schedulertest.Pod("p", "app=x", spreadBy("zone", v1.ScheduleAnyway, nil)), s)
	if want := (map[string]int64{"a1": 0, "a2": 0, "b1": 0, "c1": 100, "none": 0}); !reflect.DeepEqual(got, want) {
		t.Errorf("own constraint: got %v, want %v", got, want)
	}
	if got := schedulertest.Scores(System(), schedulertest.Pod("p", "app=x", nil), s); got != nil {
		t.Errorf("a pod of no service has preferences %v", got)
	}
	s.SetService(types.NamespacedName{Namespace: "default", Name: "svc"}, labels.Set{"app": "x"})
	got = schedulertest.Scores(System(), schedulertest.Pod("p", "app=x", nil), s)
	if !(got["a2"] == got["c1"] && got["a2"] > got["a1"] && got["a1"] == got["b1"]) {
		t.Errorf("of a service: got %v", got)
	}
}

func TestHints(t *testing.T) {
	p := snapshot.NewPod(schedulertest.Pod("p", "app=x", spreadBy("zone", v1.DoNotSchedule, nil)))
	match, other := snapshot.NewPod(schedulertest.Pod("m", "app=x", nil)),
		snapshot.NewPod(schedulertest.Pod("o", "app=y", nil))
	helps := System().Hints()[1].Helps
	cases := map[string]struct {
		e    queue.Event
		want bool
	}{
		"match added":   {queue.Event{Pod: match}, true},
		"match removed": {queue.Event{OldPod: match}, true},
		"other added":   {queue.Event{Pod: other}, false},
		"became match":  {queue.Event{OldPod: other, Pod: match}, true},
	}
	for name, c := range cases {
		if got := helps(p, c.e); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	nodes := System().Hints()[0].Helps
	if !nodes(p, queue.Event{Node: schedulertest.Node("n", "zone=a")}) ||
		nodes(p, queue.Event{Node: schedulertest.Node("n", "")}) {
		t.Error("a node helps if and only if it has the label")
	}
	if !nodes(p, queue.Event{Kind: queue.NodeRemoved, OldNode: schedulertest.Node("n", "zone=a")}) {
		t.Error("a node that went, and was the emptiest, does not help")
	}
}
