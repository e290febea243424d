package podspec

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// checkWarnings compares the warnings of new pods without the path of the table.
func checkWarnings(t *testing.T, cases []specCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := minimal()
			c.change(&p.Spec)
			sameTexts(t, PodWarnings(p, nil), c.want)
		})
	}
}

// TestRenamedLabels: every label of nodes that has another name by now, wherever it can be asked for.
func TestRenamedLabels(t *testing.T) {
	for key, text := range map[string]string{
		"beta.kubernetes.io/arch":                       `deprecated since v1.14; use "kubernetes.io/arch" instead`,
		"beta.kubernetes.io/os":                         `deprecated since v1.14; use "kubernetes.io/os" instead`,
		"failure-domain.beta.kubernetes.io/region":      `deprecated since v1.17; use "topology.kubernetes.io/region" instead`,
		"failure-domain.beta.kubernetes.io/zone":        `deprecated since v1.17; use "topology.kubernetes.io/zone" instead`,
		"beta.kubernetes.io/instance-type":              `deprecated since v1.17; use "node.kubernetes.io/instance-type" instead`,
		"app.kubernetes.io/created-by":                  "deprecated since v1.9",
		"scheduler.alpha.kubernetes.io/preferAvoidPods": "deprecated since v1.22; use Taints and Tolerations instead",
		"node-role.kubernetes.io/master":                `use "node-role.kubernetes.io/control-plane" instead`,
		"kubernetes.io/os":                              "",
		"node-role.kubernetes.io/control-plane":         "",
	} {
		if got := NodeLabelWarning(key); got != text {
			t.Errorf("%s: %q", key, got)
		}
		is := func(path, with string) texts {
			if text == "" {
				return nil
			}
			return texts{path + with + text}
		}
		term := expressionTerm(nodeReq("a", "Exists"), nodeReq(key, "Exists"))
		affinity := func(required bool) func(*corev1.PodSpec) {
			return func(s *corev1.PodSpec) {
				s.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}
				if required {
					s.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{
						NodeSelectorTerms: []corev1.NodeSelectorTerm{{}, term}}
				} else {
					s.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.PreferredSchedulingTerm{
						{Preference: term},
					}
				}
			}
		}
		const nodes = "spec.affinity.nodeAffinity."
		checkWarnings(t, []specCase{
			{"node selector " + key, func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{key: "x", "a": "b"} },
				is("spec.nodeSelector["+key+"]", ": ")},
			{"required " + key, affinity(true),
				is(nodes+"requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[1].matchExpressions[1].key: ",
					key+" is ")},
			{"preferred " + key, affinity(false),
				is(nodes+"preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[1].key: ",
					key+" is ")},
			{"spread " + key, func(s *corev1.PodSpec) {
				s.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{TopologyKey: key,
					LabelSelector: &metav1.LabelSelector{}}}
			}, is("spec.topologySpreadConstraints[0].topologyKey: ", key+" is ")},
		})
		sameTexts(t, NodeTermWarnings(&term, field.NewPath("t")), is("t.matchExpressions[1].key: ", key+" is "))
		sameTexts(t, NodeLabelsWarnings(&metav1.LabelSelector{MatchLabels: map[string]string{key: "x"}},
			field.NewPath("s")),
			is("s.matchLabels."+key, ": "))
		sameTexts(t,
			NodeLabelsWarnings(&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key}}},
				field.NewPath("s")), is("s.matchExpressions[0].key: ", key+" is "))
	}
	sameTexts(t, NodeLabelsWarnings(nil, field.NewPath("s")), nil)
}

// TestNullSelectors: they match no pod, unlike empty ones.
func TestNullSelectors(t *testing.T) {
	const null = "a null labelSelector results in matching no pod"
	some := corev1.PodAffinityTerm{TopologyKey: "k", LabelSelector: &metav1.LabelSelector{}}
	none := corev1.PodAffinityTerm{TopologyKey: "k"}
	must := []corev1.PodAffinityTerm{some, none}
	may := []corev1.WeightedPodAffinityTerm{{PodAffinityTerm: none}, {PodAffinityTerm: some}}
	const required, preferred = "requiredDuringSchedulingIgnoredDuringExecution[1]",
		"preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm"
	checkWarnings(t, []specCase{
		{"spread", func(s *corev1.PodSpec) {
			s.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{TopologyKey: "k"}}
		}, texts{"spec.topologySpreadConstraints[0].labelSelector: " + null}},
		{"affinity", func(s *corev1.PodSpec) {
			s.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution:  must,
				PreferredDuringSchedulingIgnoredDuringExecution: may}}
		}, texts{"spec.affinity.podAffinity." + required + ".labelSelector: " + null,
			"spec.affinity.podAffinity." + preferred + ".labelSelector: " + null}},
		{"anti-affinity", func(s *corev1.PodSpec) {
			s.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution:  must,
				PreferredDuringSchedulingIgnoredDuringExecution: may}}
		}, texts{"spec.affinity.podAntiAffinity." + required + ".labelSelector: " + null,
			"spec.affinity.podAntiAffinity." + preferred + ".labelSelector: " + null}},
	})
}
