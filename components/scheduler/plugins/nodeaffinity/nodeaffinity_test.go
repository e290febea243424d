package nodeaffinity

import (
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/scheduler/cycle"
	"quintet.dev/quintet/components/scheduler/schedulertest"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

func required(terms ...v1.NodeSelectorTerm) *v1.NodeAffinity {
	return &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: terms}}
}

func label(key string, operator v1.NodeSelectorOperator, values ...string) v1.NodeSelectorTerm {
	return v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{{Key: key, Operator: operator,
		Values: values}}}
}

func name(values ...string) v1.NodeSelectorTerm {
	return v1.NodeSelectorTerm{MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name",
		Operator: v1.NodeSelectorOpIn, Values: values}}}
}

func with(a *v1.NodeAffinity) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.Affinity = &v1.Affinity{NodeAffinity: a} }
}

func TestFilter(t *testing.T) {
	const refused = "!node(s) didn't match Pod's node affinity/selector"
	s := schedulertest.Snapshot(schedulertest.Node("a", "zone=1 disk=3"), schedulertest.Node("b", "zone=2"),
		schedulertest.Node("c", ""))
	cases := map[string]struct {
		change func(*v1.Pod)
		added  *v1.NodeAffinity
		want   map[string]string
	}{
		"none": {nil, nil, map[string]string{}},
		"selector": {func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"zone": "1"} }, nil,
			map[string]string{"b": refused, "c": refused}},
		"in": {with(required(label("zone", v1.NodeSelectorOpIn, "1", "2"))), nil,
			map[string]string{"c": refused}},
		"not in": {with(required(label("zone", v1.NodeSelectorOpNotIn, "1"))), nil,
			map[string]string{"a": refused}},
		"exists": {with(required(label("disk", v1.NodeSelectorOpExists))), nil,
			map[string]string{"b": refused, "c": refused}},
		"greater": {with(required(label("disk", v1.NodeSelectorOpGt, "2"))), nil,
			map[string]string{"b": refused, "c": refused}},
		"either": {with(required(label("zone", v1.NodeSelectorOpIn, "2"), name("c"))), nil,
			map[string]string{"a": refused}},
		"by name": {with(required(name("b"))), nil, map[string]string{"a": refused, "c": refused}},
		"no term matches": {with(required(v1.NodeSelectorTerm{})), nil,
			map[string]string{"a": refused, "b": refused, "c": refused}},
		"enforced for all": {nil, required(label("zone", v1.NodeSelectorOpIn, "2")),
			map[string]string{"a": "!node(s) didn't match scheduler-enforced node affinity",
				"c": "!node(s) didn't match scheduler-enforced node affinity"}},
	}
	for name, c := range cases {
		plugin, err := New(c.added)
		if err != nil {
			t.Fatal(err)
		}
		if got := schedulertest.Check(plugin, schedulertest.Pod("p", "", c.change),
			s); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

func TestNarrows(t *testing.T) {
	s := schedulertest.Snapshot(schedulertest.Node("a", ""), schedulertest.Node("b", ""))
	both := name("a")
	both.MatchFields = append(both.MatchFields, name("b").MatchFields...)
	cases := map[string]struct {
		affinity *v1.NodeAffinity
		only     []string
		refused  bool
	}{
		"named":       {required(name("b")), []string{"b"}, false},
		"alternative": {required(name("b"), name("a")), []string{"b", "a"}, false},
		"open":        {required(name("b"), label("x", v1.NodeSelectorOpExists)), nil, false},
		"conflict":    {required(both), nil, true},
	}
	for name, c := range cases {
		test, refusal := (&Plugin{}).Filter(snapshot.NewPod(schedulertest.Pod("p", "", with(c.affinity))), s)
		if (refusal != nil) != c.refused {
			t.Errorf("%s: refusal %v", name, refusal)
			continue
		}
		if test != nil && !reflect.DeepEqual(test.(cycle.NodeNarrower).Only(), c.only) {
			t.Errorf("%s: only %v, want %v", name, test.(cycle.NodeNarrower).Only(), c.only)
		}
	}
}

func TestScore(t *testing.T) {
	s := schedulertest.Snapshot(schedulertest.Node("a", "zone=1 disk=3"), schedulertest.Node("b", "zone=2"),
		schedulertest.Node("c", ""))
	preferred := &v1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []v1.PreferredSchedulingTerm{
		{Weight: 3, Preference: label("disk", v1.NodeSelectorOpExists)},
		{Weight: 1, Preference: label("zone", v1.NodeSelectorOpIn, "1", "2")},
	}}
	got := schedulertest.Scores(&Plugin{}, schedulertest.Pod("p", "", with(preferred)), s)
	if want := (map[string]int64{"a": 100, "b": 25, "c": 0}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := schedulertest.Scores(&Plugin{}, schedulertest.Pod("p", "", nil), s); got != nil {
		t.Errorf("a pod without terms has preferences %v", got)
	}
}
