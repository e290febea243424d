package core

import (
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/show"
)

type texts = []string

// ruleCase is a change of a valid object and what is refused of it.
type ruleCase[P any] struct {
	name   string
	change func(obj P)
	want   texts // errors below the path of the table; see sameTexts
}

// checkRules changes objects and compares the errors about them. Validation modifies none.
func checkRules[P interface{ DeepCopy() P }](t *testing.T, at string, valid func() P, check func(P) field.ErrorList,
	cases []ruleCase[P]) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			obj := valid()
			c.change(obj)
			before := obj.DeepCopy()
			sameTexts(t, errorsBelow(at, check(obj)), c.want)
			if !reflect.DeepEqual(obj, before) {
				t.Errorf("validation changed the object to %+v", obj)
			}
		})
	}
}

// changeCase is a change of an object from a state of it; before may be nil.
type changeCase[P any] struct {
	name        string
	before, now func(obj P)
	want        texts
}

// checkChanges compares the errors about changes. A valid object may stay as it is.
func checkChanges[P interface{ DeepCopy() P }](t *testing.T, at string, valid func() P,
	check func(new, old P) field.ErrorList, cases []changeCase[P]) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			old := valid()
			if c.before != nil {
				c.before(old)
			}
			obj := old.DeepCopy()
			c.now(obj)
			before, was := obj.DeepCopy(), old.DeepCopy()
			sameTexts(t, errorsBelow(at, check(obj, old)), c.want)
			if !reflect.DeepEqual(obj, before) || !reflect.DeepEqual(old, was) {
				t.Errorf("validation changed an object to %+v, from %+v", obj, old)
			}
			sameTexts(t, errorsBelow(at, check(was, old)), nil)
		})
	}
}

// errorsBelow writes errors without the path at which all of them should be.
func errorsBelow(at string, errs field.ErrorList) texts {
	var out texts
	for _, err := range errs {
		out = append(out, strings.TrimPrefix(err.Error(), at))
	}
	return out
}

// sameTexts compares texts; of one that ends in "…" only what is before.
func sameTexts(t *testing.T, got, want texts) {
	t.Helper()
	same := len(got) == len(want)
	for i := 0; same && i < len(want); i++ {
		begin, isPrefix := strings.CutSuffix(want[i], "…")
		same = got[i] == want[i] || isPrefix && strings.HasPrefix(got[i], begin)
	}
	if !same {
		t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// amounts reads name, quantity, name, quantity ...
func amounts(pairs ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

// sameRow compares the cells of a row, as they are read now.
func sameRow(t *testing.T, columns show.Columns, got []any, want ...any) {
	t.Helper()
	if len(got) != len(columns) {
		t.Errorf("%d cells of %d columns", len(got), len(columns))
	}
	if got := show.At(got, now); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %#v\nwant %#v", got, want)
	}
}

// headers are the names of columns, those that are shown on request in parentheses.
func headers(columns show.Columns) string {
	var out texts
	for _, c := range columns {
		if c.Priority > 0 {
			c.Name = "(" + c.Name + ")"
		}
		out = append(out, c.Name)
	}
	return strings.Join(out, " ")
}
