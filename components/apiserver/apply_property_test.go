package apiserver_test

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// applied is a kind that is applied: how a manager's part of it is made up, and what of it counts in the end.
type applied struct {
	resource schema.GroupVersionResource
	kind     string
	part     func(r *rand.Rand) map[string]any
}

// some chooses names; two managers choose from the same ones and say the same of them. One is always among them, as an
// empty list or map contradicts one that isn't.
func some(r *rand.Rand) []string {
	out := []string{"always"}
	for _, name := range []string{"a", "b", "c", "d"} {
		if r.Intn(2) == 0 {
			out = append(out, name)
		}
	}
	return out
}

func appliedKinds() []applied {
	return []applied{
		{schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, "ConfigMap",
			func(r *rand.Rand) map[string]any {
				data := map[string]any{}
				for _, name := range some(r) {
					data[name] = "value of " + name
				}
				return map[string]any{"data": data}
			}},
		{schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, "Deployment",
			func(r *rand.Rand) map[string]any {
				containers := []any{map[string]any{"name": "main", "image": "main:1"}}
				for _, name := range some(r) {
					env := []any{}
					for _, variable := range some(r) {
						env = append(env, map[string]any{"name": variable, "value": variable + name})
					}
					containers = append(containers, map[string]any{"name": name, "image": name + ":1", "env": env})
				}
				labels := map[string]any{"app": "x"}
				return map[string]any{"spec": map[string]any{
					"selector": map[string]any{"matchLabels": labels},
					"template": map[string]any{"metadata": map[string]any{"labels": labels},
						"spec": map[string]any{"containers": containers}},
				}}
			}},
		{widgets, "Widget", func(r *rand.Rand) map[string]any {
			spec := map[string]any{"color": "red"}
			parts := []any{}
			for _, name := range some(r) {
				parts = append(parts, map[string]any{"name": name, "size": int64(len(name))})
				spec["free"] = map[string]any{name: "x"}
			}
			spec["parts"] = parts
			return map[string]any{"spec": spec}
		}},
	}
}

// TestAppliesConverge: two managers that apply without conflicts come to the same object in either order, and then
// their applies change nothing more; and a field that one of them no longer applies is removed, unless the other owns
// it.
func TestAppliesConverge(t *testing.T) {
	f := startCustom(t)
	for _, kind := range appliedKinds() {
		t.Run(kind.kind, func(t *testing.T) {
			for seed := range int64(10) {
				r := rand.New(rand.NewSource(seed))
				first, second, later := kind.part(r), kind.part(r), kind.part(r)
				one := &applier{f.dynamic, kind, fmt.Sprintf("one-%d", seed)}
				two := &applier{f.dynamic, kind, fmt.Sprintf("two-%d", seed)}
				one.apply(t, "first", first)
				one.apply(t, "second", second)
				two.apply(t, "second", second)
				two.apply(t, "first", first)
				settled(t, one, two, first, second)

				one.apply(t, "first", later)
				fresh := &applier{f.dynamic, kind, fmt.Sprintf("fresh-%d", seed)}
				fresh.apply(t, "second", second)
				fresh.apply(t, "first", later)
				settled(t, one, fresh, later, second)
			}
		})
	}
}

// applier applies to one object.
type applier struct {
	client dynamic.Interface
	applied
	name string
}

func (a *applier) apply(t *testing.T, manager string, part map[string]any) *unstructured.Unstructured {
	t.Helper()
	obj := (&unstructured.Unstructured{Object: part}).DeepCopy()
	obj.SetGroupVersionKind(a.resource.GroupVersion().WithKind(a.kind))
	obj.SetName(a.name)
	out, err := a.client.Resource(a.resource).Namespace("default").Apply(t.Context(), a.name, obj,
		metav1.ApplyOptions{FieldManager: manager})
	if err != nil {
		t.Fatalf("%s of %s: %v", manager, a.name, err)
	}
	return out
}

// settled checks that both objects are the same, and that applying once more changes neither.
func settled(t *testing.T, one, two *applier, first, second map[string]any) {
	t.Helper()
	var content []any
	for _, a := range []*applier{one, two} {
		before := a.apply(t, "first", first)
		after := a.apply(t, "second", second)
		if before.GetResourceVersion() != after.GetResourceVersion() {
			t.Errorf("%s: an apply of what is there wrote", a.name)
		}
		unstructured.RemoveNestedField(after.Object, "metadata")
		content = append(content, sorted(after.Object))
	}
	if diff := cmp.Diff(content[0], content[1]); diff != "" {
		t.Errorf("%s and %s differ: %s", one.name, two.name, diff)
	}
}

// sorted puts lists of named things in order: theirs is that in which the managers came.
func sorted(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key := range v {
			v[key] = sorted(v[key])
		}
	case []any:
		for i := range v {
			v[i] = sorted(v[i])
		}
		slices.SortFunc(v, func(a, b any) int { return strings.Compare(nameOf(a), nameOf(b)) })
	}
	return v
}

func nameOf(v any) string {
	m, _ := v.(map[string]any)
	name, _ := m["name"].(string)
	return name
}
