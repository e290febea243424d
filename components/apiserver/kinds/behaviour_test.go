package kinds

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clocktesting "k8s.io/utils/clock/testing"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// A file below testdata/behaviour is about one kind: a valid object, and what becomes of changed forms of it.
type behaviour struct {
	Object map[string]any  `json:"object"`
	Cases  []behaviourCase `json:"cases"`
}

type behaviourCase struct {
	Name string `json:"name"`
	// Door is create, update, or the name of a subresource; create if empty.
	Door string `json:"door"`
	// Old changes the object before it is stored, for what comes through other doors than create.
	Old map[string]any `json:"old"`
	// Set changes the object: values by path (spec.rules[0].host), null to take something away.
	Set map[string]any `json:"set"`
	// Errors are all that validation tells, in order; Warnings likewise.
	Errors   []string `json:"errors"`
	Warnings []string `json:"warnings"`
	// Stored are values, by path, that the object has in the end; null is what must not be there.
	Stored map[string]any `json:"stored"`
}

func TestBehaviour(t *testing.T) {
	files, err := filepath.Glob("testdata/behaviour/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for i, doc := range strings.Split(string(text), "\n---\n") {
				var b behaviour
				if err := yaml.UnmarshalStrict([]byte(doc), &b); err != nil {
					t.Fatalf("document %d: %v", i, err)
				}
				for _, c := range b.Cases {
					t.Run(c.Name, func(t *testing.T) { c.run(t, b.Object) })
				}
			}
		})
	}
}

func (c behaviourCase) run(t *testing.T, base map[string]any) {
	u := unstructured.Unstructured{Object: base}
	kind, version := kindOf(t, u.GroupVersionKind())
	obj := decoded(t, kind, version, changed(t, changed(t, base, c.Old), c.Set))
	var errs field.ErrorList
	var warnings []string
	switch strategy := &kind.Strategy; c.Door {
	case "", "create":
		errs, warnings = created(t, kind, obj)
	default:
		if c.Door != "update" {
			if strategy = kind.Subresource(c.Door).Strategy; strategy == nil {
				t.Fatalf("no door %q", c.Door)
			}
		}
		old := decoded(t, kind, version, changed(t, base, c.Old))
		if errs, _ := created(t, kind, old); len(errs) > 0 {
			t.Fatal("the object is not valid to begin with:", errs.ToAggregate())
		}
		restoreStatus(t, kind, version, old, changed(t, base, c.Old))
		before := old.DeepCopyObject()
		obj.SetGeneration(old.GetGeneration())
		errs, warnings = updated(t, strategy, obj, old)
		if !apiequality.Semantic.DeepEqual(before, old) {
			t.Error("the stored object was changed")
		}
	}
	var got []string
	for _, e := range errs {
		got = append(got, e.Error())
	}
	if !slices.Equal(got, c.Errors) {
		t.Errorf("got errors\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.Errors, "\n"))
	}
	if !slices.Equal(warnings, c.Warnings) {
		t.Errorf("got warnings %q, want %q", warnings, c.Warnings)
	}
	c.checkStored(t, version, obj)
}

func (c behaviourCase) checkStored(t *testing.T, version *Version, obj Object) {
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
	for path, want := range c.Stored {
		got, _ := at(content, steps(path))
		if fmt.Sprintf("%v", got) != fmt.Sprintf("%v", want) {
			t.Errorf("%s is %v, want %v", path, got, want)
		}
	}
}

func created(t *testing.T, k *Kind, obj Object) (field.ErrorList, []string) {
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
		errs = append(errs, s.Validate(t.Context(), obj)...)
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

func updated(t *testing.T, s *Strategy, obj, old Object) (field.ErrorList, []string) {
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

// restoreStatus gives an object back the status that its creation dropped, as if it had come through its own door.
func restoreStatus(t *testing.T, k *Kind, v *Version, obj Object, content map[string]any) {
	sub := k.Subresource("status")
	if _, has := content["status"]; !has || sub == nil {
		return
	}
	next := decoded(t, k, v, content)
	if sub.Strategy.PrepareUpdate != nil {
		sub.Strategy.PrepareUpdate(t.Context(), next, obj)
	}
	next.SetGeneration(obj.GetGeneration())
	reflect.ValueOf(obj).Elem().Set(reflect.ValueOf(next).Elem())
}

// noon is the time at which everything is tried.
func noon() time.Time { return time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC) }

func kindOf(t *testing.T, gvk schema.GroupVersionKind) (*Kind, *Version) {
	for _, k := range Table(Deps{Clock: clocktesting.NewFakePassiveClock(noon())}) {
		if v := k.Version(gvk.GroupVersion()); v != nil && k.Name == gvk.Kind {
			return k, v
		}
	}
	t.Fatalf("%s is not served", gvk)
	return nil, nil
}

// decoded is content as a defaulted hub object.
func decoded(t *testing.T, k *Kind, v *Version, content map[string]any) Object {
	t.Helper()
	obj := v.New()
	text, err := json.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	if strict, err := kjson.UnmarshalStrict(text, obj); err != nil || len(strict) > 0 {
		t.Fatal(strict, err)
	}
	if v.Default != nil {
		v.Default(obj)
	}
	if v.ToHub == nil {
		return obj
	}
	hub, err := v.ToHub(obj)
	if err != nil {
		t.Fatal(err)
	}
	if d := k.HubVersion().Default; d != nil {
		d(hub)
	}
	return hub
}

// changed is content with some values set; it shares nothing with content.
func changed(t *testing.T, content map[string]any, set map[string]any) map[string]any {
	t.Helper()
	out := runtime.DeepCopyJSON(content)
	for path, value := range set {
		list := steps(path)
		parent, ok := at(out, list[:len(list)-1])
		if !ok {
			t.Fatalf("there is nothing at %s", path)
		}
		switch last := list[len(list)-1]; p := parent.(type) {
		case map[string]any:
			if value == nil {
				delete(p, last)
			} else {
				p[last] = runtime.DeepCopyJSONValue(value)
			}
		case []any:
			i, err := strconv.Atoi(last)
			if err != nil || i >= len(p) {
				t.Fatalf("no such item: %s", path)
			}
			p[i] = runtime.DeepCopyJSONValue(value)
		}
	}
	return out
}

// steps takes a path apart: spec.rules[0].host, or data["a.b"] for names with dots.
func steps(path string) []string {
	var out []string
	for path != "" {
		switch {
		case strings.HasPrefix(path, `["`):
			name, rest, _ := strings.Cut(path[2:], `"]`)
			out, path = append(out, name), rest
		case path[0] == '[':
			index, rest, _ := strings.Cut(path[1:], "]")
			out, path = append(out, index), rest
		default:
			path = strings.TrimPrefix(path, ".")
			end := strings.IndexAny(path, ".[")
			if end < 0 {
				end = len(path)
			}
			out, path = append(out, path[:end]), path[end:]
		}
	}
	return out
}

// at goes down the steps.
func at(v any, path []string) (any, bool) {
	for _, step := range path {
		switch p := v.(type) {
		case map[string]any:
			v = p[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i >= len(p) {
				return nil, false
			}
			v = p[i]
		default:
			return nil, false
		}
	}
	return v, v != nil
}
