package policy

import (
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestMarker: the label that says in one version what the other says without stays out of selectors that say more.
func TestMarker(t *testing.T) {
	some := metav1.LabelSelectorRequirement{Key: "a", Operator: metav1.LabelSelectorOpExists}
	none, all := marked(metav1.LabelSelectorOpExists), &metav1.LabelSelector{}
	more := &metav1.LabelSelector{MatchExpressions: append(marked(metav1.LabelSelectorOpExists).MatchExpressions, some)}
	for _, test := range []struct {
		name                  string
		given, v1, fromV1beta *metav1.LabelSelector
	}{
		{"not there", nil, nil, nil},
		{"empty", all, all, none},
		{"none of v1", none, none, all},
		{"all of v1beta1", marked(metav1.LabelSelectorOpDoesNotExist), all, all},
		{"with more", more, &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{some}},
			&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{some}}},
	} {
		for what, setDefaults := range map[string]func(*policyv1.PodDisruptionBudget){"v1": Default,
			"v1beta1": DefaultV1beta1} {
			want := test.v1
			if what == "v1beta1" {
				want = test.fromV1beta
			}
			b := &policyv1.PodDisruptionBudget{Spec: policyv1.PodDisruptionBudgetSpec{Selector: test.given.DeepCopy()}}
			setDefaults(b)
			if !apiequality.Semantic.DeepEqual(b.Spec.Selector, want) {
				t.Errorf("%s, as %s: %v, want %v", test.name, what, b.Spec.Selector, want)
			}
		}
	}
}
