package apps

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TestOldSelectors: a selector stays, even one with a value that no label can have. Where there is one, in the affinity
// of the template too, the other may be such.
func TestOldSelectors(t *testing.T) {
	unlike := func(value string) *metav1.LabelSelector {
		return &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "a", Operator: metav1.LabelSelectorOpNotIn, Values: []string{value}}},
		}
	}
	with := func(value string) *appsv1.DaemonSet {
		return &appsv1.DaemonSet{Spec: appsv1.DaemonSetSpec{Selector: unlike(value)}}
	}
	apart := func(value string) *appsv1.DaemonSet {
		d := with("b")
		d.Spec.Template.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
				{TopologyKey: "zone", LabelSelector: unlike(value)}},
		}}
		return d
	}
	for _, c := range []struct {
		name    string
		is, was *appsv1.DaemonSet // was is nil on create
		refused bool
	}{
		{"on create", with("!"), nil, true},
		{"after a good one", with("!"), with("b"), true},
		{"after a bad one", with("!"), with("!"), false},
		{"after a bad one of the affinity", with("!"), apart("!"), false},
		{"in the affinity, on create", apart("!"), nil, true},
		{"in the affinity, after a good one", apart("!"), apart("b"), true},
		{"in the affinity, after a bad one of the set", apart("!"), with("!"), false},
	} {
		var errs field.ErrorList
		if c.was == nil {
			errs = Rules{}.ValidateDaemonSet(c.is)
		} else {
			errs = Rules{}.ValidateDaemonSetUpdate(c.is, c.was)
		}
		refused := slices.ContainsFunc(errs,
			func(e *field.Error) bool { return strings.HasSuffix(e.Field, "elector.matchExpressions[0].values[0]") })
		if refused != c.refused {
			t.Errorf("%s: %v", c.name, errs)
		}
	}
}
