// Package kindtest tries the rules of a kind in tables: a valid object, changes of it as values by path, and what the
// kind's strategy tells of each.
package kindtest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/show"
)

// Noon is the time at which everything is tried.
func Noon() time.Time { return time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC) }

// Table is what comes of changes. A key is a change, as YAML: values by path ("spec.rules[0].host: x", several with
// semicolons between them), null to take something away, "" for the object as it is.
// Of updates it may be "old => new", where old
// changes the stored object, and new that one. A value that ends in "..." stands for all texts that begin with it.
type Table map[string][]string

// Fixture is a kind and a valid object of it, as YAML, in any of its versions.
type Fixture struct {
	Kind   *api.Kind
	Object string
}

// With is the fixture of a changed object.
func (f Fixture) With(t *testing.T, set string) Fixture {
	t.Helper()
	return Fixture{Kind: f.Kind, Object: Write(t, Change(t, Parse(t, f.Object), ParseChange(t, set)))}
}

// Create tries the errors that new objects give, in order. What is valid must be a valid update of itself, too.
func (f Fixture) Create(t *testing.T, table Table) {
	t.Helper()
	f.each(t, table, func(_, set string) []string {
		obj, version := f.object(t, set)
		before := obj.DeepCopyObject()
		f.checkIdempotent(t, version, obj)
		errs, _ := Created(t, f.Kind, obj)
		if len(errs) == 0 {
			f.checkUnchanged(t, set)
		} else if f.Kind.Strategy.PrepareCreate == nil && !apiequality.Semantic.DeepEqual(before, obj) {
			t.Errorf("%s: validation changed the object", set)
		}
		return texts(errs)
	})
}

// Update tries the errors that changed objects give, in order. What is stored need not be valid.
func (f Fixture) Update(t *testing.T, table Table) {
	t.Helper()
	f.update(t, &f.Kind.Strategy, table)
}

// Subresource tries the errors that writes of a subresource give, in order.
func (f Fixture) Subresource(t *testing.T, name string, table Table) {
	t.Helper()
	f.update(t, f.strategy(t, name), table)
}

// Warnings tries the warnings of a verb: create, update, or the name of a subresource.
func (f Fixture) Warnings(t *testing.T, verb string, table Table) {
	t.Helper()
	f.each(t, table, func(before, set string) []string {
		_, warnings := f.write(t, verb, before, set)
		return warnings
	})
}

// Stored tries what objects have in the end, defaults among it, as "path: value"; null is what must not be there. Verb
// is create, update, or the name of a subresource.
func (f Fixture) Stored(t *testing.T, verb string, table Table) {
	t.Helper()
	for key, want := range table {
		before, set := split(key)
		obj, _ := f.write(t, verb, before, set)
		_, version := f.object(t, "")
		CheckValues(t, key, Content(t, version, obj), want)
	}
}

// CheckValues compares content to values, each as "path: value"; what names the case in errors.
func CheckValues(t *testing.T, what string, content map[string]any, values []string) {
	t.Helper()
	for _, line := range values {
		for path, value := range ParseChange(t, line) {
			if got := Value(content, path); fmt.Sprint(got) != fmt.Sprint(value) {
				t.Errorf("%q: %s is %v, want %v", what, path, got, value)
			}
		}
	}
}

// Cells tries the cells of the object's row in tables, a day after Noon.
func (f Fixture) Cells(t *testing.T, table Table) {
	t.Helper()
	f.each(t, table, func(_, set string) (cells []string) {
		obj, _ := f.object(t, set)
		for _, cell := range show.At(f.Kind.Row(obj), Noon().Add(24*time.Hour)) {
			cells = append(cells, fmt.Sprint(cell))
		}
		if len(cells) != len(f.Kind.Columns) {
			t.Errorf("%d cells for %d columns", len(cells), len(f.Kind.Columns))
		}
		return cells
	})
}

func (f Fixture) update(t *testing.T, s *api.Strategy[api.Object], table Table) {
	t.Helper()
	f.each(t, table, func(before, set string) []string {
		obj, old := f.change(t, before, set)
		stored := old.DeepCopyObject()
		errs, _ := Updated(t, s, obj, old)
		if !apiequality.Semantic.DeepEqual(stored, old) {
			t.Errorf("%s: the stored object was changed", set)
		}
		return texts(errs)
	})
}

func (f Fixture) write(t *testing.T, verb, before, set string) (api.Object, []string) {
	t.Helper()
	if verb == "create" {
		obj, _ := f.object(t, set)
		_, warnings := Created(t, f.Kind, obj)
		return obj, warnings
	}
	obj, old := f.change(t, before, set)
	s := &f.Kind.Strategy
	if verb != "update" {
		s = f.strategy(t, verb)
	}
	_, warnings := Updated(t, s, obj, old)
	return obj, warnings
}

func (f Fixture) strategy(t *testing.T, name string) *api.Strategy[api.Object] {
	t.Helper()
	sub := f.Kind.Subresource(name)
	if sub == nil || sub.Strategy == nil {
		t.Fatalf("no subresource %q", name)
	}
	return sub.Strategy
}

// each compares what try gives for every row of a table.
func (f Fixture) each(t *testing.T, table Table, try func(before, set string) []string) {
	t.Helper()
	for key, want := range table {
		before, set := split(key)
		if got := try(before, set); !slices.EqualFunc(got, want, matches) {
			t.Errorf("%q: got %q, want %q", key, got, want)
		}
	}
}

func split(key string) (before, set string) {
	if before, set, ok := strings.Cut(key, "=>"); ok {
		return strings.TrimSpace(before), strings.TrimSpace(set)
	}
	return "", key
}

func matches(got, want string) bool {
	if start, ok := strings.CutSuffix(want, "..."); ok {
		return strings.HasPrefix(got, start)
	}
	return got == want
}

// object is the fixture's, changed, defaulted and in the hub version.
func (f Fixture) object(t *testing.T, set string) (api.Object, *api.Version) {
	t.Helper()
	return Decode(t, f.Kind, Change(t, Parse(t, f.Object), ParseChange(t, set)))
}

// change is what a client makes of a stored object that it has read, and the stored object.
func (f Fixture) change(t *testing.T, before, set string) (obj, old api.Object) {
	t.Helper()
	old, version := f.object(t, before)
	content := Content(t, version, old)
	content["apiVersion"], content["kind"] = version.String(), f.Kind.Name
	obj, _ = Decode(t, f.Kind, Change(t, content, ParseChange(t, set)))
	return obj, old
}

func (f Fixture) checkIdempotent(t *testing.T, version *api.Version, obj api.Object) {
	t.Helper()
	hub := f.Kind.HubVersion()
	if hub.Default == nil || version.ToHub != nil {
		return
	}
	again := obj.DeepCopyObject().(api.Object)
	if hub.Default(again); !apiequality.Semantic.DeepEqual(obj, again) {
		t.Error("defaults change a defaulted object")
	}
}

// checkUnchanged tries writes that change nothing.
func (f Fixture) checkUnchanged(t *testing.T, set string) {
	t.Helper()
	stored, _ := f.object(t, set)
	Created(t, f.Kind, stored)
	stored.SetResourceVersion("1")
	strategies := map[string]*api.Strategy[api.Object]{"update": &f.Kind.Strategy}
	if f.Kind.Virtual() {
		return
	}
	if sub := f.Kind.Subresource("status"); sub != nil && sub.Strategy != nil {
		strategies["status"] = sub.Strategy
	}
	for verb, s := range strategies {
		obj := stored.DeepCopyObject().(api.Object)
		if errs, _ := Updated(t, s, obj, stored); len(errs) > 0 {
			t.Errorf("%q: %s without a change: %q", set, verb, texts(errs))
		}
		if !apiequality.Semantic.DeepEqual(obj, stored) {
			t.Errorf("%q: %s changes what was not changed", set, verb)
		}
	}
}

func texts(errs field.ErrorList) (out []string) {
	for _, err := range errs {
		out = append(out, err.Error())
	}
	return out
}

// Created runs a new object through its kind's strategy.
func Created(t *testing.T, k *api.Kind, obj api.Object) (field.ErrorList, []string) {
	t.Helper()
	s := &k.Strategy
	if s.PrepareCreate != nil {
		s.PrepareCreate(t.Context(), obj)
	}
	validName := s.ValidateName
	if validName == nil {
		validName = validation.NameIsDNSSubdomain
	}
	errs := validation.ValidateObjectMetaAccessor(obj, k.Namespaced, validName, field.NewPath("metadata"))
	if s.Validate != nil {
		before := obj.DeepCopyObject()
		errs = append(errs, s.Validate(t.Context(), obj)...)
		if !apiequality.Semantic.DeepEqual(before, obj) {
			t.Error("validation changed the object")
		}
	}
	var warnings []string
	if s.Warnings != nil {
		warnings = s.Warnings(t.Context(), obj, nil)
	}
	if s.Canonicalize != nil {
		s.Canonicalize(obj)
	}
	return errs, warnings
}

// Updated runs a changed object through a strategy.
func Updated(t *testing.T, s *api.Strategy[api.Object], obj, old api.Object) (field.ErrorList, []string) {
	t.Helper()
	if s.PrepareUpdate != nil {
		s.PrepareUpdate(t.Context(), obj, old)
	}
	var errs field.ErrorList
	if s.ValidateUpdate != nil {
		errs = s.ValidateUpdate(t.Context(), obj, old)
	}
	var warnings []string
	if s.Warnings != nil {
		warnings = s.Warnings(t.Context(), obj, old)
	}
	if s.Canonicalize != nil {
		s.Canonicalize(obj)
	}
	return errs, warnings
}

// Content is an object as the version shows it.
func Content(t *testing.T, version *api.Version, obj api.Object) map[string]any {
	t.Helper()
	var out runtime.Object = obj
	if version.FromHub != nil {
		served, err := version.FromHub(obj)
		if err != nil {
			t.Fatal(err)
		}
		out = served
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(out)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// RestoreStatus gives an object back the status that its creation dropped, as an update of the status would.
func RestoreStatus(t *testing.T, k *api.Kind, obj api.Object, content map[string]any) {
	t.Helper()
	sub := k.Subresource("status")
	if _, has := content["status"]; !has || sub == nil {
		return
	}
	next, _ := Decode(t, k, content)
	if sub.Strategy.PrepareUpdate != nil {
		sub.Strategy.PrepareUpdate(t.Context(), next, obj)
	}
	next.SetGeneration(obj.GetGeneration())
	reflect.ValueOf(obj).Elem().Set(reflect.ValueOf(next).Elem())
}
