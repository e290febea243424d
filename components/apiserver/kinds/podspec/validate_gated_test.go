package podspec

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// gatedPair is a pod that waits, and what is to become of it, with an affinity each.
func gatedPair(old, new *corev1.Affinity) (was, is *corev1.Pod) {
	was = minimal()
	was.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}}
	is = was.DeepCopy()
	was.Spec.Affinity, is.Spec.Affinity = old, new
	return was, is
}

func nodesOf(terms ...corev1.NodeSelectorTerm) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms}}}
}

// TestGatedTerms: a term gets requirements only where it has some, as one without finds no node.
func TestGatedTerms(t *testing.T) {
	one, other := corev1.NodeSelectorRequirement{Key: "a", Operator: "Exists"},
		corev1.NodeSelectorRequirement{Key: "b", Operator: "Exists"}
	named := corev1.NodeSelectorRequirement{Key: "metadata.name", Operator: "In", Values: []string{"n"}}
	expressions := func(list ...corev1.NodeSelectorRequirement) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: list}
	}
	fields := corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{named}}
	for name, c := range map[string]struct {
		old, new corev1.NodeSelectorTerm
		taken    bool
	}{
		"added":           {expressions(one), expressions(one, other), true},
		"removed":         {expressions(one, other), expressions(one), false},
		"changed":         {expressions(one), expressions(other), false},
		"exchanged":       {expressions(one), fields, false},
		"empty":           {expressions(), expressions(), true},
		"expression more": {expressions(), expressions(one), false},
		"field more":      {expressions(), fields, false},
	} {
		was, is := gatedPair(nodesOf(c.old), nodesOf(c.new))
		errs := (Rules{}).ValidateUpdate(is, was)
		refused := len(errs) == 1 &&
			errs[0].Field == "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]" &&
			errs[0].Detail == "only additions are allowed (no mutations or deletions)"
		if c.taken && len(errs) > 0 || !c.taken && !refused {
			t.Errorf("%s: %v", name, errs)
		}
	}
}

// TestRefusedAffinityOfGatedPods: clients are shown what they may not change, and not what they may.
func TestRefusedAffinityOfGatedPods(t *testing.T) {
	pods := &corev1.PodAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: "zone-of-pods"}}}
	nodes := nodesOf(corev1.NodeSelectorTerm{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "key-of-nodes", Operator: "Exists"}}})
	both := &corev1.Affinity{NodeAffinity: nodes.NodeAffinity, PodAffinity: pods}
	for name, c := range map[string]struct {
		old, new *corev1.Affinity
		shown    bool
	}{
		"nodes":              {nil, nodes, false},
		"nodes for nothing":  {&corev1.Affinity{}, nodes, false},
		"both":               {nil, both, true},
		"both for nothing":   {&corev1.Affinity{}, both, true},
		"pods beside nodes":  {nodes, both, true},
		"nodes beside pods":  {&corev1.Affinity{PodAffinity: pods}, both, false},
		"nothing for pods":   {&corev1.Affinity{PodAffinity: pods}, nil, true},
		"nothing of nothing": {nil, nil, false},
	} {
		was, is := gatedPair(c.old, c.new)
		errs := (Rules{}).ValidateUpdate(is, was)
		if !c.shown && len(errs) > 0 ||
			c.shown && (len(errs) != 1 || !strings.Contains(errs[0].Detail, "zone-of-pods")) {
			t.Errorf("%s: %v", name, errs)
		} else if c.old == nil && c.shown && strings.Contains(errs[0].Detail, "key-of-nodes") {
			t.Errorf("%s: %s", name, errs[0].Detail)
		}
	}
}

// TestAddedGates: of each name clients are told once, where it stands last.
func TestAddedGates(t *testing.T) {
	gates := func(names ...string) (list []corev1.PodSchedulingGate) {
		for _, name := range names {
			list = append(list, corev1.PodSchedulingGate{Name: name})
		}
		return list
	}
	var got []string
	for _, err := range onlyRemovedGates(gates("new", "old", "new", "other", "old"), gates("old", "gone"), nil) {
		got = append(got, err.Error())
	}
	want := []string{
		"[2].name: Forbidden: only deletion is allowed, but found new scheduling gate 'new'",
		"[3].name: Forbidden: only deletion is allowed, but found new scheduling gate 'other'",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
