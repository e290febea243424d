package policy

import (
	"slices"

	policyv1 "k8s.io/api/policy/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// marker is a label that no pod has. Selectors that mean all or nothing in one version are written by it in the other:
// an empty one selects nothing in v1beta1, and everything in v1.
const marker = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match"

func marked(operator metav1.LabelSelectorOperator) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: marker, Operator: operator}}}
}

// Default takes the label out of selectors that mean something else.
func Default(b *policyv1.PodDisruptionBudget) {
	if s := b.Spec.Selector; s != nil && !apiequality.Semantic.DeepEqual(s, marked(metav1.LabelSelectorOpExists)) {
		unmark(s)
	}
}

// DefaultV1beta1 makes the selector of a budget that lies in the store as of v1beta1 one that means the same in v1.
func DefaultV1beta1(b *policyv1.PodDisruptionBudget) {
	switch s := b.Spec.Selector; {
	case s == nil:
	case apiequality.Semantic.DeepEqual(s, &metav1.LabelSelector{}):
		b.Spec.Selector = marked(metav1.LabelSelectorOpExists)
	case apiequality.Semantic.DeepEqual(s, marked(metav1.LabelSelectorOpDoesNotExist)):
		b.Spec.Selector = &metav1.LabelSelector{}
	default:
		unmark(s)
	}
}

func unmark(s *metav1.LabelSelector) {
	of := func(r metav1.LabelSelectorRequirement) bool { return r.Key == marker }
	if slices.ContainsFunc(s.MatchExpressions, of) {
		s.MatchExpressions = slices.DeleteFunc(slices.Clone(s.MatchExpressions), of)
	}
}
