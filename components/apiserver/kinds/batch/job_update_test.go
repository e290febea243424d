package batch

import (
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

func TestCompletions(t *testing.T) {
	number := func(n int32) *int32 { return ptr.To(n) }
	for _, c := range []struct {
		name             string
		was, is, atOnce  *int32
		indexed, refused bool
	}{
		{name: "kept", was: number(3), is: number(3), atOnce: number(2), indexed: true},
		{name: "grown as a whole", was: number(3), is: number(4), atOnce: number(4), indexed: true},
		{name: "grown alone", was: number(3), is: number(4), atOnce: number(3), indexed: true, refused: true},
		{name: "new with as many pods", is: number(4), atOnce: number(4), indexed: true},
		{name: "new", is: number(4), atOnce: number(3), indexed: true, refused: true},
		{name: "gone, which is told elsewhere", was: number(4), atOnce: number(4), indexed: true},
		{name: "without indexes", was: number(3), is: number(4), atOnce: number(4), refused: true},
		{name: "kept without indexes", was: number(3), is: number(3), atOnce: number(1)},
	} {
		mode := batchv1.NonIndexedCompletion
		if c.indexed {
			mode = batchv1.IndexedCompletion
		}
		is := &batchv1.JobSpec{CompletionMode: &mode, Completions: c.is, Parallelism: c.atOnce}
		if errs := keptCompletions(is, &batchv1.JobSpec{Completions: c.was},
			field.NewPath("spec")); (len(errs) > 0) != c.refused {
			t.Errorf("%s: %v", c.name, errs)
		}
	}
}

// TestOldSelectors: a selector with a value that no label can have may stay where it was, or where the affinity of the
// template had such, and the other way round; it comes nowhere else.
func TestOldSelectors(t *testing.T) {
	unlike := func(value string) *metav1.LabelSelector {
		return &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "a", Operator: metav1.LabelSelectorOpNotIn, Values: []string{value}}},
		}
	}
	with := func(value string) *batchv1.JobSpec { return &batchv1.JobSpec{Selector: unlike(value)} }
	apart := func(value string) *batchv1.JobSpec {
		s := with("b")
		s.Template.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
				{TopologyKey: "zone", LabelSelector: unlike(value)}},
		}}
		return s
	}
	for _, c := range []struct {
		name    string
		is, was *batchv1.JobSpec
		refused bool
	}{
		{"a new one", with("!"), nil, true},
		{"after a good one", with("!"), with("b"), true},
		{"after a bad one", with("!"), with("!"), false},
		{"after a bad one of the affinity", with("!"), apart("!"), false},
		{"in the affinity", apart("!"), with("b"), true},
		{"in the affinity, after a good one", apart("!"), apart("b"), true},
		{"in the affinity, after a bad one", apart("!"), apart("!"), false},
		{"in the affinity, after a bad one of the job", apart("!"), with("!"), false},
	} {
		errs := Rules{}.validateSelected(c.is, c.was, field.NewPath("spec"))
		refused := slices.ContainsFunc(errs,
			func(e *field.Error) bool { return strings.HasSuffix(e.Field, "elector.matchExpressions[0].values[0]") })
		if refused != c.refused {
			t.Errorf("%s: %v", c.name, errs)
		}
	}
}
