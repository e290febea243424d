package tainttoleration

import (
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/scheduler/queue"
	"quintet.dev/quintet/components/scheduler/schedulertest"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

func tainted(name string, taints ...v1.Taint) *v1.Node {
	n := schedulertest.Node(name, "")
	n.Spec.Taints = taints
	return n
}

func taint(key, value string, effect v1.TaintEffect) v1.Taint {
	return v1.Taint{Key: key, Value: value, Effect: effect}
}

func tolerating(tolerations ...v1.Toleration) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.Tolerations = tolerations }
}

// TestTolerations: key, value, operator and effect must fit, and all taints must be tolerated.
func TestTolerations(t *testing.T) {
	const no, soft, out = v1.TaintEffectNoSchedule, v1.TaintEffectPreferNoSchedule, v1.TaintEffectNoExecute
	equal, exists := v1.TolerationOpEqual, v1.TolerationOpExists
	for name, c := range map[string]struct {
		taints      []v1.Taint
		tolerations []v1.Toleration
		fits        bool
	}{
		"no taint":    {nil, nil, true},
		"only a wish": {[]v1.Taint{taint("a", "1", soft)}, nil, true},
		"the same value": {[]v1.Taint{taint("a", "1", no)},
			[]v1.Toleration{{Key: "a", Operator: equal, Value: "1", Effect: no}}, true},
		"no operator is Equal": {[]v1.Taint{taint("a", "1", no)}, []v1.Toleration{{Key: "a", Value: "1"}}, true},
		"another value": {[]v1.Taint{taint("a", "1", no)},
			[]v1.Toleration{{Key: "a", Operator: equal, Value: "2"}}, false},
		"any value":   {[]v1.Taint{taint("a", "1", no)}, []v1.Toleration{{Key: "a", Operator: exists}}, true},
		"another key": {[]v1.Taint{taint("a", "1", no)}, []v1.Toleration{{Key: "b", Operator: exists}}, false},
		"any key":     {[]v1.Taint{taint("a", "1", out)}, []v1.Toleration{{Operator: exists}}, true},
		"another effect": {[]v1.Taint{taint("a", "1", out)},
			[]v1.Toleration{{Key: "a", Operator: exists, Effect: no}}, false},
		"one of two taints": {[]v1.Taint{taint("a", "", no), taint("b", "", no)},
			[]v1.Toleration{{Key: "a", Operator: exists}}, false},
		"both": {[]v1.Taint{taint("a", "", no), taint("b", "", out)},
			[]v1.Toleration{{Key: "a", Operator: exists}, {Key: "b", Operator: exists}}, true},
		"an operator behind a gate": {[]v1.Taint{taint("a", "5", no)},
			[]v1.Toleration{{Key: "a", Operator: v1.TolerationOpGt, Value: "1"}}, false},
	} {
		got := schedulertest.Check(Plugin{}, schedulertest.Pod("p", "", tolerating(c.tolerations...)),
			schedulertest.Snapshot(tainted("n", c.taints...)))
		want := map[string]string{}
		if !c.fits {
			want["n"] = "!node(s) had untolerated taint(s)"
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestComparison: with the feature, a toleration may compare numbers (KEP-5471).
func TestComparison(t *testing.T) {
	for name, c := range map[string]struct {
		operator v1.TolerationOperator
		value    string
		fits     bool
	}{
		"more":         {v1.TolerationOpGt, "4", true},
		"not more":     {v1.TolerationOpGt, "5", false},
		"less":         {v1.TolerationOpLt, "6", true},
		"not less":     {v1.TolerationOpLt, "5", false},
		"not a number": {v1.TolerationOpGt, "many", false},
	} {
		p := schedulertest.Pod("p", "", tolerating(v1.Toleration{Key: "a", Operator: c.operator, Value: c.value}))
		refused := schedulertest.Check(Plugin{Comparison: true}, p,
			schedulertest.Snapshot(tainted("n", taint("a", "5", v1.TaintEffectNoSchedule))))
		if fits := len(refused) == 0; fits != c.fits {
			t.Errorf("%s: %v", name, refused)
		}
	}
}

// TestScoreCounts: each untolerated PreferNoSchedule taint costs, in proportion to the node with the most.
func TestScoreCounts(t *testing.T) {
	const soft = v1.TaintEffectPreferNoSchedule
	s := schedulertest.Snapshot(tainted("none"), tainted("one", taint("a", "", soft)),
		tainted("two", taint("a", "", soft), taint("b", "", soft)),
		tainted("hard", taint("a", "", v1.TaintEffectNoSchedule)),
		tainted("four", taint("a", "", soft), taint("b", "", soft), taint("c", "", soft), taint("d", "", soft)))
	tolerateA := func(effect v1.TaintEffect) func(*v1.Pod) {
		return tolerating(v1.Toleration{Key: "a", Operator: v1.TolerationOpExists, Effect: effect})
	}
	for name, c := range map[string]struct {
		change func(*v1.Pod)
		want   map[string]int64
	}{
		"none tolerated": {nil, map[string]int64{"none": 100, "one": 75, "two": 50, "hard": 100, "four": 0}},
		"one tolerated":  {tolerateA(""), map[string]int64{"none": 100, "one": 100, "two": 67, "hard": 100, "four": 0}},
		"tolerated for another effect": {tolerateA(v1.TaintEffectNoSchedule),
			map[string]int64{"none": 100, "one": 75, "two": 50, "hard": 100, "four": 0}},
	} {
		if got := schedulertest.Scores(Plugin{}, schedulertest.Pod("p", "", c.change), s); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

func TestHints(t *testing.T) {
	hints := queue.Hints{Name: Plugin{}.Hints()}
	no := taint("a", "", v1.TaintEffectNoSchedule)
	bare, hard, soft := tainted("n"), tainted("n", no), tainted("n", taint("a", "", v1.TaintEffectPreferNoSchedule))
	other := tainted("n", no, taint("b", "", v1.TaintEffectNoExecute))
	for name, c := range map[string]struct {
		change func(*v1.Pod)
		e      queue.Event
		want   bool
	}{
		"a node without":     {nil, queue.Event{Kind: queue.NodeAdded, Node: bare}, true},
		"a node with a wish": {nil, queue.Event{Kind: queue.NodeAdded, Node: soft}, true},
		"a tainted node":     {nil, queue.Event{Kind: queue.NodeAdded, Node: hard}, false},
		"a tolerated node": {tolerate(""),
			queue.Event{Kind: queue.NodeAdded, Node: tainted("n", taint("k", "", v1.TaintEffectNoSchedule))}, true},
		"the taint went":      {nil, queue.Event{Kind: queue.NodeTaints, OldNode: hard, Node: bare}, true},
		"the taint came":      {nil, queue.Event{Kind: queue.NodeTaints, OldNode: bare, Node: hard}, false},
		"one of two went":     {nil, queue.Event{Kind: queue.NodeTaints, OldNode: other, Node: hard}, false},
		"it was no hindrance": {nil, queue.Event{Kind: queue.NodeTaints, OldNode: soft, Node: bare}, false},
		"labels changed":      {nil, queue.Event{Kind: queue.NodeLabels, OldNode: hard, Node: bare}, false},
		"it got a toleration": {nil, queue.Event{Kind: queue.OwnTolerations}, true},
		"a pod went":          {nil, queue.Event{Kind: queue.PodRemoved}, false},
	} {
		p := snapshot.NewPod(schedulertest.Pod("p", "", c.change))
		if got := hints.Helps(p, []string{Name}, c.e); got != c.want {
			t.Errorf("%s helps: %v", name, got)
		}
	}
}
