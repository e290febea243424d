package apps

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TestOldSelectors: a selector stays, even one with a value that no label can have.
func TestOldSelectors(t *testing.T) {
	with := func(value string) *appsv1.DaemonSet {
		return &appsv1.DaemonSet{Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: metav1.LabelSelectorOpNotIn, Values: []string{value}}},
		}}}
	}
	refused := func(errs field.ErrorList) bool {
		return slices.ContainsFunc(errs, func(e *field.Error) bool { return e.Field == "spec.selector.matchExpressions[0].values[0]" })
	}
	if errs := (Rules{}).ValidateDaemonSet(with("!")); !refused(errs) {
		t.Errorf("on create: %v", errs)
	}
	if errs := (Rules{}).ValidateDaemonSetUpdate(with("!"), with("b")); !refused(errs) {
		t.Errorf("after a good one: %v", errs)
	}
	if errs := (Rules{}).ValidateDaemonSetUpdate(with("!"), with("!")); refused(errs) {
		t.Errorf("after a bad one: %v", errs)
	}
}
