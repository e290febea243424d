package kinds

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/yaml"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/kindtest"
)

// A file below testdata/behaviour is about one kind: a valid object, and what becomes of changed forms of it.
type behaviour struct {
	Object map[string]any  `json:"object"`
	Cases  []behaviourCase `json:"cases"`
}

type behaviourCase struct {
	Name string `json:"name"`
	// Verb is create, update, or the name of a subresource; create if empty.
	Verb string `json:"verb"`
	// Old changes the object before it is stored, for what comes by other verbs than create.
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
	kind := kindOf(t, u.GroupVersionKind())
	obj, version := kindtest.Decode(t, kind, kindtest.Change(t, kindtest.Change(t, base, c.Old), c.Set))
	var errs field.ErrorList
	var warnings []string
	switch strategy := &kind.Strategy; c.Verb {
	case "", "create":
		errs, warnings = kindtest.Created(t, kind, obj)
	default:
		if c.Verb != "update" {
			if strategy = kind.Subresource(c.Verb).Strategy; strategy == nil {
				t.Fatalf("no subresource %q", c.Verb)
			}
		}
		old, _ := kindtest.Decode(t, kind, kindtest.Change(t, base, c.Old))
		if errs, _ := kindtest.Created(t, kind, old); len(errs) > 0 {
			t.Fatal("the object is not valid to begin with:", errs.ToAggregate())
		}
		kindtest.RestoreStatus(t, kind, old, kindtest.Change(t, base, c.Old))
		before := old.DeepCopyObject()
		obj.SetGeneration(old.GetGeneration())
		errs, warnings = kindtest.Updated(t, strategy, obj, old)
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

func (c behaviourCase) checkStored(t *testing.T, version *api.Version, obj api.Object) {
	content := kindtest.Content(t, version, obj)
	for path, want := range c.Stored {
		got := kindtest.Value(content, path)
		if fmt.Sprintf("%v", got) != fmt.Sprintf("%v", want) {
			t.Errorf("%s is %v, want %v", path, got, want)
		}
	}
}

func kindOf(t *testing.T, gvk schema.GroupVersionKind) *api.Kind {
	for _, k := range Table(api.Deps{Clock: clocktesting.NewFakePassiveClock(kindtest.Noon())}) {
		if v := k.Version(gvk.GroupVersion()); v != nil && k.Name == gvk.Kind {
			return k
		}
	}
	t.Fatalf("%s is not served", gvk)
	return nil
}
