package batch

import (
	"slices"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
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
		if errs := keptCompletions(is, &batchv1.JobSpec{Completions: c.was}, field.NewPath("spec")); (len(errs) > 0) != c.refused {
			t.Errorf("%s: %v", c.name, errs)
		}
	}
}

// TestOldSelectors: a selector with a value that no label can have may stay where it was, and come nowhere.
func TestOldSelectors(t *testing.T) {
	with := func(value string) *batchv1.JobSpec {
		return &batchv1.JobSpec{Selector: &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: metav1.LabelSelectorOpNotIn, Values: []string{value}}},
		}}
	}
	for _, c := range []struct {
		name    string
		is, was *batchv1.JobSpec
		refused bool
	}{
		{"a new one", with("!"), nil, true},
		{"after a good one", with("!"), with("b"), true},
		{"after a bad one", with("!"), with("!"), false},
	} {
		errs := Rules{}.validateSelected(c.is, c.was, field.NewPath("spec"))
		refused := slices.ContainsFunc(errs, func(e *field.Error) bool { return e.Field == "spec.selector.matchExpressions[0].values[0]" })
		if refused != c.refused {
			t.Errorf("%s: %v", c.name, errs)
		}
	}
}
