package podspec

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func nodeReq(key string, op corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: key, Operator: op, Values: values}
}

func expressionTerm(list ...corev1.NodeSelectorRequirement) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: list}
}

func fieldTerm(list ...corev1.NodeSelectorRequirement) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchFields: list}
}

// TestNodeSelector: every operator takes its own number of values, and a field is the name of the node.
func TestNodeSelector(t *testing.T) {
	const none = ": must be specified when `operator` is 'In' or 'NotIn'"
	const some = ": may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
	const single = ": must be specified single value when `operator` is 'Lt' or 'Gt'"
	const one = ": must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
	for _, c := range []struct {
		name string
		term corev1.NodeSelectorTerm
		want texts
	}{
		{"In", expressionTerm(nodeReq("k", "In", "a", "b")), nil},
		{"In of nothing", expressionTerm(nodeReq("k", "In")),
			texts{"matchExpressions[0].values: Required value" + none}},
		{"NotIn of nothing", expressionTerm(nodeReq("k", "NotIn")),
			texts{"matchExpressions[0].values: Required value" + none}},
		{"Exists", expressionTerm(nodeReq("k", "Exists")), nil},
		{"Exists with a value", expressionTerm(nodeReq("k", "Exists", "a")),
			texts{"matchExpressions[0].values: Forbidden" + some}},
		{"DoesNotExist with a value", expressionTerm(nodeReq("k", "DoesNotExist", "a")),
			texts{"matchExpressions[0].values: Forbidden" + some}},
		{"Gt", expressionTerm(nodeReq("k", "Gt", "5")), nil},
		{"Gt of text", expressionTerm(nodeReq("k", "Gt", "five")), nil}, // which matches no node
		{"Gt of nothing", expressionTerm(nodeReq("k", "Gt")),
			texts{"matchExpressions[0].values: Required value" + single}},
		{"Lt of two", expressionTerm(nodeReq("k", "Lt", "1", "2")),
			texts{"matchExpressions[0].values: Required value" + single}},
		{"unknown operator", expressionTerm(nodeReq("k", "Is", "a")),
			texts{`matchExpressions[0].operator: Invalid value: "Is": not a valid selector operator`}},
		{"no key", expressionTerm(nodeReq("", "Exists")),
			texts{`matchExpressions[0].key: Invalid value: "": name part must be non-empty`,
				`matchExpressions[0].key: Invalid value: "": name part must consist of…`}},
		{"bad key", expressionTerm(nodeReq("a/b/c", "Exists")),
			texts{`matchExpressions[0].key: Invalid value: "a/b/c": a valid label key must consist of…`}},
		{"bad value", expressionTerm(nodeReq("k", "In", "a", "a b")),
			texts{`matchExpressions[0].values[1]: Invalid value: "a b": a valid label must be…`}},
		{"second of two", expressionTerm(nodeReq("k", "Exists"), nodeReq("k", "In")),
			texts{"matchExpressions[1].values: Required value" + none}},
		{"empty term", corev1.NodeSelectorTerm{}, nil},
		{"field", fieldTerm(nodeReq("metadata.name", "In", "n")), nil},
		{"not the field", fieldTerm(nodeReq("metadata.name", "NotIn", "n")), nil},
		{"field of two values", fieldTerm(nodeReq("metadata.name", "In", "n", "m")),
			texts{"matchFields[0].values: Required value" + one}},
		{"field that exists", fieldTerm(nodeReq("metadata.name", "Exists")),
			texts{`matchFields[0].operator: Invalid value: "Exists": not a valid selector operator`}},
		{"unknown field", fieldTerm(nodeReq("metadata.uid", "In", "/")),
			texts{`matchFields[0].key: Invalid value: "metadata.uid": not a valid field selector key`}},
		{"field of a bad name", fieldTerm(nodeReq("metadata.name", "In", "N")),
			texts{`matchFields[0].values[0]: Invalid value: "N": a lowercase RFC 1123 subdomain must…`}},
	} {
		s := &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{c.term}}
		t.Run(c.name, func(t *testing.T) {
			sameTexts(t, errorsBelow("p.nodeSelectorTerms[0].", NodeSelector(s, field.NewPath("p"))), c.want)
		})
	}
	sameTexts(t, errorsBelow("", NodeSelector(&corev1.NodeSelector{}, field.NewPath("p"))),
		texts{"p.nodeSelectorTerms: Required value: must have at least one node selector term"})
}

// TestNodeSelectorUpdate: values that no label has may stay and be joined by others, but don't come by an update.
func TestNodeSelectorUpdate(t *testing.T) {
	of := func(terms ...corev1.NodeSelectorTerm) *corev1.NodeSelector {
		return &corev1.NodeSelector{NodeSelectorTerms: terms}
	}
	good, invalid := expressionTerm(nodeReq("k", "In", "a")), expressionTerm(nodeReq("k", "In", bad))
	refused := texts{`p.nodeSelectorTerms[0].matchExpressions[0].values[0]: Invalid value: "a b": a valid label must be…`}
	for name, c := range map[string]struct {
		is, was *corev1.NodeSelector
		want    texts
	}{
		"new":   {of(invalid), nil, refused},
		"comes": {of(invalid), of(good), refused},
		"stays": {of(invalid), of(invalid), nil},
		"moves": {of(invalid), of(good, invalid), nil},
		"all else": {of(expressionTerm(nodeReq("k", "In"))), of(invalid),
			texts{"p.nodeSelectorTerms[0].matchExpressions[0].values: Required value: must be…"}},
		"of a field": {of(fieldTerm(nodeReq("metadata.name", "In", bad))),
			of(fieldTerm(nodeReq("metadata.name", "In", bad))),
			texts{`p.nodeSelectorTerms[0].matchFields[0].values[0]: Invalid value: "a b": a lowercase…`}},
	} {
		t.Run(name, func(t *testing.T) {
			sameTexts(t, errorsBelow("", NodeSelectorUpdate(c.is, c.was, field.NewPath("p"))), c.want)
		})
	}
}

func TestPreferredNodes(t *testing.T) {
	prefer := func(weight int32, term corev1.NodeSelectorTerm) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) {
			s.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
				PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{
					{Weight: weight, Preference: term}}}}
		}
	}
	good := expressionTerm(nodeReq("k", "Exists"))
	checkSpecs(t, "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].", []specCase{
		{"least", prefer(1, good), nil},
		{"most", prefer(100, good), nil},
		{"no weight", prefer(0, good), texts{"weight: Invalid value: 0: must be in the range 1-100"}},
		{"too much", prefer(101, good), texts{"weight: Invalid value: 101: must be in the range 1-100"}},
		{"value of no label", prefer(1, expressionTerm(nodeReq("k", "In", bad))), nil}, // there is a warning instead
		{"no operator", prefer(1, expressionTerm(nodeReq("k", ""))),
			texts{`preference.matchExpressions[0].operator: Invalid value: "": not a valid selector operator`}},
	})
}

// TestPodAffinityTerms: required and preferred ones, for and against, are checked by the same rules.
func TestPodAffinityTerms(t *testing.T) {
	any1 := &metav1.LabelSelector{}
	labels := func(key string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{key: "x"}}
	}
	for _, c := range []struct {
		name string
		term corev1.PodAffinityTerm
		want texts
	}{
		{"minimal", corev1.PodAffinityTerm{TopologyKey: "zone"}, nil},
		{"no key", corev1.PodAffinityTerm{}, texts{"topologyKey: Required value: can not be empty",
			`topologyKey: Invalid value: "": name part must be non-empty`,
			`topologyKey: Invalid value: "": name part must consist of…`}},
		{"bad key", corev1.PodAffinityTerm{TopologyKey: "a b"},
			texts{`topologyKey: Invalid value: "a b": name part must consist of…`}},
		{"bad selector", corev1.PodAffinityTerm{TopologyKey: "k", LabelSelector: badSelector()},
			texts{`labelSelector.matchExpressions[0].values[0]: Invalid value: "a b": a valid label must…`}},
		{"bad namespace selector", corev1.PodAffinityTerm{TopologyKey: "k", NamespaceSelector: badSelector()},
			texts{`namespaceSelector.matchExpressions[0].values[0]: Invalid value: "a b": a valid label must…`}},
		{"bad namespace", corev1.PodAffinityTerm{TopologyKey: "k", Namespaces: texts{"a", "B"}},
			texts{`namespace: Invalid value: "B": a lowercase RFC 1123 label must…`}},
		{"keys", corev1.PodAffinityTerm{TopologyKey: "k", LabelSelector: any1, MatchLabelKeys: texts{"a"},
			MismatchLabelKeys: texts{"b"}}, nil},
		{"keys without a selector", corev1.PodAffinityTerm{TopologyKey: "k", MatchLabelKeys: texts{"a"},
			MismatchLabelKeys: texts{"b"}},
			texts{"matchLabelKeys: Forbidden: must not be specified when labelSelector is not set",
				"mismatchLabelKeys: Forbidden: must not be specified when labelSelector is not set"}},
		{"bad keys", corev1.PodAffinityTerm{TopologyKey: "k", LabelSelector: any1, MatchLabelKeys: texts{"a", "/"},
			MismatchLabelKeys: texts{"b c"}},
			texts{`matchLabelKeys[1]: Invalid value: "/": prefix part must be non-empty`,
				`matchLabelKeys[1]: Invalid value: "/": name part must be non-empty`,
				`matchLabelKeys[1]: Invalid value: "/": name part must consist of…`,
				`mismatchLabelKeys[0]: Invalid value: "b c": name part must consist of…`}},
		{"a key in both lists", corev1.PodAffinityTerm{TopologyKey: "k", LabelSelector: any1,
			MatchLabelKeys: texts{"a", "b"}, MismatchLabelKeys: texts{"b"}},
			texts{`matchLabelKeys[1]: Invalid value: "b": exists in both matchLabelKeys and mismatchLabelKeys`}},
		{"a key that was merged", corev1.PodAffinityTerm{TopologyKey: "k", LabelSelector: labels("a"),
			MatchLabelKeys: texts{"a"}}, nil},
	} {
		const required, preferred = "requiredDuringSchedulingIgnoredDuringExecution[0].",
			"preferredDuringSchedulingIgnoredDuringExecution[0]."
		must, may := []corev1.PodAffinityTerm{c.term},
			[]corev1.WeightedPodAffinityTerm{{Weight: 1, PodAffinityTerm: c.term}}
		checkSpecs(t, "spec.affinity.podAffinity."+required, []specCase{{c.name, func(s *corev1.PodSpec) {
			s.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: must}}
		}, c.want}})
		for kind, affinity := range map[string]*corev1.Affinity{
			"podAffinity." + preferred + "podAffinityTerm.": {PodAffinity: &corev1.PodAffinity{
				PreferredDuringSchedulingIgnoredDuringExecution: may}},
			"podAntiAffinity." + required: {PodAntiAffinity: &corev1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: must}},
			"podAntiAffinity." + preferred + "podAffinityTerm.": {PodAntiAffinity: &corev1.PodAntiAffinity{
				PreferredDuringSchedulingIgnoredDuringExecution: may}},
		} {
			checkSpecs(t, "spec.affinity."+kind,
				[]specCase{{c.name + ", " + kind, func(s *corev1.PodSpec) { s.Affinity = affinity }, c.want}})
		}
	}
	checkSpecs(t, "spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].", []specCase{
		{"weight", func(s *corev1.PodSpec) {
			s.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
				PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
					{Weight: -1, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: "k"}}}}}
		}, texts{"weight: Invalid value: -1: must be in the range 1-100"}}})
	checkSpecs(t, "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]", []specCase{
		{"a key that the selector had, too", func(s *corev1.PodSpec) {
			twice := labels("a")
			twice.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Exists"}}
			s.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
					{TopologyKey: "k", MatchLabelKeys: texts{"a"}, LabelSelector: twice}}}}
		}, texts{`[0]: Invalid value: "a": exists in both matchLabelKeys and labelSelector`}}})
}
