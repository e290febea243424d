package podspec

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// renamedLabels are labels of nodes that have other names now, or none.
var renamedLabels = map[string]string{
	"beta.kubernetes.io/arch":                       `deprecated since v1.14; use "kubernetes.io/arch" instead`,
	"beta.kubernetes.io/os":                         `deprecated since v1.14; use "kubernetes.io/os" instead`,
	corev1.LabelFailureDomainBetaRegion:             `deprecated since v1.17; use "topology.kubernetes.io/region" instead`,
	corev1.LabelFailureDomainBetaZone:               `deprecated since v1.17; use "topology.kubernetes.io/zone" instead`,
	corev1.LabelInstanceType:                        `deprecated since v1.17; use "node.kubernetes.io/instance-type" instead`,
	"app.kubernetes.io/created-by":                  "deprecated since v1.9",
	"scheduler.alpha.kubernetes.io/preferAvoidPods": "deprecated since v1.22; use Taints and Tolerations instead",
	"node-role.kubernetes.io/master":                `use "node-role.kubernetes.io/control-plane" instead`,
}

// NodeLabelWarning says what to use in place of a label of nodes; "" if that is as good as any.
func NodeLabelWarning(key string) string { return renamedLabels[key] }

// NodeTermWarnings tells of labels of nodes that have another name by now.
func NodeTermWarnings(t *corev1.NodeSelectorTerm, at *field.Path) []string {
	w := warner{}
	w.term(t, false, at)
	return w.out
}

func (w *warner) labels() {
	s := w.spec
	for _, key := range sortedKeys(s.NodeSelector) {
		if text := renamedLabels[key]; text != "" {
			w.add("%s: %s", w.path.Child("nodeSelector").Key(key), text)
		}
	}
	if s.Affinity != nil && s.Affinity.NodeAffinity != nil {
		n, at := s.Affinity.NodeAffinity, w.path.Child("affinity", "nodeAffinity")
		if r := n.RequiredDuringSchedulingIgnoredDuringExecution; r != nil {
			for i := range r.NodeSelectorTerms {
				w.term(&r.NodeSelectorTerms[i], false,
					at.Child("requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms").Index(i))
			}
		}
		for i := range n.PreferredDuringSchedulingIgnoredDuringExecution {
			w.term(&n.PreferredDuringSchedulingIgnoredDuringExecution[i].Preference, true,
				at.Child("preferredDuringSchedulingIgnoredDuringExecution").Index(i).Child("preference"))
		}
	}
	for i := range s.TopologySpreadConstraints {
		c, at := &s.TopologySpreadConstraints[i], w.path.Child("topologySpreadConstraints").Index(i)
		if text := renamedLabels[c.TopologyKey]; text != "" {
			w.add("%s: %s is %s", at.Child("topologyKey"), c.TopologyKey, text)
		}
		if c.LabelSelector == nil {
			w.nullSelector(at)
		}
	}
}

func (w *warner) term(t *corev1.NodeSelectorTerm, values bool, at *field.Path) {
	for i := range t.MatchExpressions {
		e, at := &t.MatchExpressions[i], at.Child("matchExpressions").Index(i)
		if text := renamedLabels[e.Key]; text != "" {
			w.add("%s: %s is %s", at.Child("key"), e.Key, text)
		}
		if !values {
			continue
		}
		for j, v := range e.Values {
			for _, problem := range utilvalidation.IsValidLabelValue(v) {
				w.add("%s: %s is invalid, %s", at.Child("values").Index(j), v, problem)
			}
		}
	}
}

// NodeLabelsWarnings tells of the same in a selector of nodes by their labels, nil for none.
func NodeLabelsWarnings(s *metav1.LabelSelector, at *field.Path) []string {
	if s == nil {
		return nil
	}
	var out []string
	for i, e := range s.MatchExpressions {
		if text := renamedLabels[e.Key]; text != "" {
			out = append(out, fmt.Sprintf("%s: %s is %s", at.Child("matchExpressions").Index(i).Child("key"), e.Key,
				text))
		}
	}
	for _, key := range sortedKeys(s.MatchLabels) {
		if text := renamedLabels[key]; text != "" {
			out = append(out, fmt.Sprintf("%s: %s", at.Child("matchLabels").Child(key), text))
		}
	}
	return out
}
