package fieldmanager

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/randfill"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/registry/registrytest"
)

// TestAppliesAreStructuredMerges: over all kinds, what becomes of random histories of applies is what structured merge
// makes of them without short cuts.
func TestAppliesAreStructuredMerges(t *testing.T) {
	types, targets := allTargets(t)
	applied := 0
	defer func() {
		if !t.Failed() && applied < 500 {
			t.Errorf("only %d objects could be applied", applied)
		}
	}()
	for name, target := range targets {
		if target.Subresource != nil && target.Subresource.Name != "status" || target.Kind.CreateFunc != nil {
			continue
		}
		t.Run(name, func(t *testing.T) {
			for seed := range int64(5) {
				applied += compareApplies(t, types, New(types, target), seed)
			}
		})
	}
}

// compareApplies returns how many applies succeeded.
func compareApplies(t *testing.T, types *Types, m *Manager, seed int64) (applied int) {
	t.Helper()
	reference, r := referenceOf(t, types, m.target), rand.New(rand.NewPCG(uint64(seed), 2))
	fill := registrytest.RandomFiller(seed)
	make := func() *unstructured.Unstructured {
		obj := m.target.Version.New()
		fill.Fill(obj)
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
		if err != nil {
			t.Fatal(err)
		}
		thin(r, content)
		labels := map[string]any{"l": fmt.Sprint(r.IntN(3)), fmt.Sprint(r.IntN(3)): "x"}
		content["metadata"] = map[string]any{"name": "a", "labels": labels}
		config := &unstructured.Unstructured{Object: content}
		config.SetGroupVersionKind(m.target.Body)
		return config
	}
	configs := map[string]*unstructured.Unstructured{}
	live := m.Nothing()
	live.GetObjectKind().SetGroupVersionKind(m.target.Kind.Hub.WithKind(m.target.Kind.Name))
	for range 10 {
		if applied > 0 && r.IntN(4) == 0 {
			live = updatedBetween(r, reference, m, fill, live)
		}
		manager, force := []string{"a", "b"}[r.IntN(2)], r.IntN(3) > 0
		config := configs[manager]
		switch {
		case config == nil || r.IntN(4) == 0:
			config = make()
		case r.IntN(4) > 0:
			config = config.DeepCopy()
			vary(r, config.Object, r.IntN(2) == 0)
			config.SetGroupVersionKind(m.target.Body)
			config.SetName("a")
		}
		configs[manager] = config
		is, gotErr := m.Apply(live, config, manager, force)
		want, wantErr := reference.Apply(copyOf(live), config.DeepCopy(), manager, force)
		if (gotErr == nil) != (wantErr == nil) { // their texts go through maps
			t.Fatalf("seed %d: got error %v, want %v", seed, gotErr, wantErr)
		}
		if wantErr != nil {
			delete(configs, manager)
			continue
		}
		shouldBe := want.(api.Object)
		if diff := cmp.Diff(shown(shouldBe.GetManagedFields()), shown(is.GetManagedFields())); diff != "" {
			t.Fatalf("seed %d: managed fields: -structured merge +ours\n%s", seed, diff)
		}
		next := copyOf(shouldBe)
		shouldBe.SetManagedFields(nil)
		is.SetManagedFields(nil)
		if !apiequality.Semantic.DeepEqual(shouldBe, is) {
			t.Fatalf("seed %d: the objects differ: -structured merge +ours\n%s", seed, cmp.Diff(shouldBe, is))
		}
		live = next
		applied++
	}
	return applied
}

// TestItemsWithoutFields: an item of which nothing is said is the one whose keys have their defaults. When it is
// applied again structured merge takes it away.
func TestItemsWithoutFields(t *testing.T) {
	types, targets := allTargets(t)
	target := targets["/v1, Resource=pods/status"]
	reference, m := referenceOf(t, types, target), New(types, target)
	config := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "a"},
		"status":   map[string]any{"podIPs": []any{map[string]any{}, map[string]any{"ip": "b"}}, "podIP": "c"},
	}}
	config.SetGroupVersionKind(target.Body)
	live := m.Nothing()
	live.GetObjectKind().SetGroupVersionKind(target.Body)
	for range 4 {
		got, err := m.Apply(live, config, "a", true)
		if err != nil {
			t.Fatal(err)
		}
		want, err := reference.Apply(copyOf(live), config.DeepCopy(), "a", true)
		if err != nil {
			t.Fatal(err)
		}
		if is, shouldBe := got.(*corev1.Pod).Status, want.(*corev1.Pod).Status; !reflect.DeepEqual(is, shouldBe) {
			t.Fatalf("-structured merge +ours\n%s", cmp.Diff(shouldBe, is))
		}
		live = want.(api.Object)
	}
}

// updatedBetween is live after an update, or without some of its entries.
func updatedBetween(
	r *rand.Rand, reference *managedfields.FieldManager, m *Manager, fill *randfill.Filler, live api.Object,
) api.Object {
	entries := live.GetManagedFields()
	next, other := copyOf(live), m.Nothing()
	fill.Fill(other)
	mix(r, reflect.ValueOf(next).Elem(), reflect.ValueOf(other).Elem())
	next.SetName("a")
	next.SetUID("")
	if r.IntN(3) == 0 && len(entries) > 1 {
		entries = slices.Delete(slices.Clone(entries), 0, 1)
	}
	next.SetManagedFields(entries)
	out, err := reference.Update(copyOf(live), next, "u")
	if err != nil {
		return live
	}
	return out.(api.Object)
}

// thin takes away much of what an object may hold, and all that is null.
func thin(r *rand.Rand, content map[string]any) {
	for _, k := range slices.Sorted(maps.Keys(content)) { // the same for a seed each time
		v := content[k]
		if v == nil || r.IntN(3) == 0 {
			delete(content, k)
		} else if below, ok := v.(map[string]any); ok {
			thin(r, below)
		}
	}
}

// vary changes and, with drop, takes away some of what is applied.
func vary(r *rand.Rand, content map[string]any, drop bool) {
	for _, k := range slices.Sorted(maps.Keys(content)) {
		if drop && r.IntN(12) == 0 {
			delete(content, k)
			continue
		}
		switch v := content[k].(type) {
		case map[string]any:
			vary(r, v, drop)
		case []any:
			for _, item := range v {
				if below, ok := item.(map[string]any); ok && r.IntN(3) == 0 {
					vary(r, below, drop)
				}
			}
		case string:
			if r.IntN(6) == 0 {
				content[k] = v + "x"
			}
		case int64:
			if r.IntN(6) == 0 {
				content[k] = v + 1
			}
		case bool:
			content[k] = v != (r.IntN(6) == 0)
		}
	}
}
