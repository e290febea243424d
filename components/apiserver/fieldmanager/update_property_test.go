package fieldmanager

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/registry/registrytest"
)

// TestUpdatesAreStructuredMerges: over all kinds, versions and subresources, the managed fields of random histories are
// those of apimachinery's managedfields.
func TestUpdatesAreStructuredMerges(t *testing.T) {
	types, targets := allTargets(t)
	withPlan := 0
	for name, target := range targets {
		m := New(types, target)
		if m.planned() != nil {
			withPlan++
		}
		t.Run(name, func(t *testing.T) {
			told, all := 0, 0
			for seed := range int64(5) {
				a, b := compareHistory(t, types, m, seed)
				told, all = told+a, all+b
			}
			if m.planned() != nil && told*4 < all*3 && !untold[target.Kind.Name] {
				t.Errorf("%d of %d writes need no structured merge", told, all)
			}
		})
	}
	if withPlan < 90 {
		t.Errorf("only %d targets have a plan", withPlan)
	}
}

// untold are kinds with much of which the schema says only that it may be anything.
var untold = map[string]bool{"CustomResourceDefinition": true}

func FuzzUpdatesAreStructuredMerges(f *testing.F) {
	types, targets := allTargets(f)
	names := slices.Sorted(maps.Keys(targets))
	f.Add(uint(0), int64(99))
	f.Fuzz(func(t *testing.T, i uint, seed int64) {
		compareHistory(t, types, New(types, targets[names[i%uint(len(names))]]), seed)
	})
}

// compareHistory makes a random object and changes it again and again. It returns how many of the writes need no
// structured merge.
func compareHistory(t *testing.T, types *Types, m *Manager, seed int64) (told, all int) {
	t.Helper()
	target := m.target
	reference, p := referenceOf(t, types, target), m.planned()
	r := rand.New(rand.NewPCG(uint64(seed), 1))
	fill := registrytest.RandomFiller(seed)
	make := func() api.Object {
		obj := m.Nothing()
		fill.Fill(obj)
		obj.SetManagedFields(nil)
		obj.GetObjectKind().SetGroupVersionKind(target.Body)
		return obj
	}
	live, next := m.Nothing(), make()
	for range 8 {
		manager := []string{"a", "b", "c<", ""}[r.IntN(4)]
		all++
		if p != nil {
			if _, ok := p.update(live, next, manager, time.Now()); ok {
				told++
			}
		}
		before, got := copyOf(live), copyOf(next)
		m.Update(live, got, manager)
		if !reflect.DeepEqual(before, live) {
			t.Fatalf("seed %d: the old object is changed", seed)
		}
		want, err := reference.Update(before, copyOf(next), manager)
		if err != nil {
			if entries := got.GetManagedFields(); entries != nil {
				t.Fatalf("seed %d: structured merge fails: %v; ours has %v", seed, err, shown(entries))
			}
			return told, all
		}
		tracked := want.(api.Object).GetManagedFields()
		if diff := cmp.Diff(shown(tracked), shown(got.GetManagedFields())); diff != "" {
			t.Fatalf("seed %d: -structured merge +ours\n%s", seed, diff)
		}
		live = copyOf(next)
		live.SetManagedFields(tracked)
		live.SetUID("u")
		if r.IntN(3) == 0 && len(tracked) > 0 { // as if it had been applied
			tracked[r.IntN(len(tracked))].Operation = metav1.ManagedFieldsOperationApply
		}
		if r.IntN(6) == 0 { // nothing keeps clients from writing so
			tracked = append(tracked, metav1.ManagedFieldsEntry{
				Manager: "odd", Operation: "Update", APIVersion: target.Body.GroupVersion().String(),
				FieldsType: "FieldsV1",
				FieldsV1: metav1.NewFieldsV1(
					`{"f:metadata":{"f:generation":{},"f:managedFields":{},"f:name":{},"f:uid":{}}}`),
			})
		}
		next = copyOf(live)
		mix(r, reflect.ValueOf(next).Elem(), reflect.ValueOf(make()).Elem())
		next.SetUID("u")
		next.SetManagedFields([][]metav1.ManagedFieldsEntry{nil, tracked, tracked, {}}[min(r.IntN(12), 3-r.IntN(3))])
	}
	return told, all
}

// TestCreationsAreStructuredMerges: the managed fields of new objects, most of which are like others, are those of
// apimachinery's managedfields.
func TestCreationsAreStructuredMerges(t *testing.T) {
	types, targets := allTargets(t)
	for name, target := range targets {
		t.Run(name, func(t *testing.T) {
			m, r := New(types, target), rand.New(rand.NewPCG(1, 1))
			reference, fill := referenceOf(t, types, target), registrytest.RandomFiller(1)
			for range 3 {
				next, other := m.Nothing(), m.Nothing()
				fill.Fill(next)
				fill.Fill(other)
				for range 6 {
					next.SetManagedFields(nil)
					next.SetUID("")
					next.GetObjectKind().SetGroupVersionKind(target.Body)
					got := copyOf(next)
					m.Update(nil, got, "a")
					var entries []metav1.ManagedFieldsEntry
					if want, err := reference.Update(m.Nothing(), copyOf(next), "a"); err == nil {
						entries = want.(api.Object).GetManagedFields()
					}
					if diff := cmp.Diff(shown(entries), shown(got.GetManagedFields())); diff != "" {
						t.Fatalf("-structured merge +ours\n%s", diff)
					}
					mix(r, reflect.ValueOf(next).Elem(), reflect.ValueOf(copyOf(other)).Elem())
				}
			}
		})
	}
}

func copyOf(obj api.Object) api.Object { return obj.DeepCopyObject().(api.Object) }

var (
	typeMeta    = reflect.TypeFor[metav1.TypeMeta]()
	entriesType = reflect.TypeFor[[]metav1.ManagedFieldsEntry]()
)

// shown are entries but for the times that they were written at, and the order that comes from these.
func shown(entries []metav1.ManagedFieldsEntry) (out []string) {
	for _, e := range entries {
		out = append(out, fmt.Sprintf("%s %s %s %s %s %t %s", e.Manager, e.Operation, e.APIVersion, e.Subresource,
			e.FieldsType, e.Time == nil, e.FieldsV1.GetRawString()))
	}
	slices.Sort(out)
	return out
}

// mix changes some of a into what b has.
func mix(r *rand.Rand, a, b reflect.Value) {
	whole := r.IntN(4) == 0
	switch a.Kind() {
	case reflect.Struct:
		for i := range a.NumField() {
			if f := a.Type().Field(i); !f.IsExported() {
				a.Set(b)
				return
			} else if f.Type != typeMeta && f.Type != entriesType && r.IntN(4) == 0 {
				mix(r, a.Field(i), b.Field(i))
			}
		}
		return
	case reflect.Pointer:
		if !whole && !a.IsNil() && !b.IsNil() {
			mix(r, a.Elem(), b.Elem())
			return
		}
	case reflect.Slice:
		if !whole && a.Type().Elem().Kind() != reflect.Uint8 && a.Len() > 0 {
			mix(r, a.Index(0), reflect.New(a.Type().Elem()).Elem())
			if b.Len() > 0 {
				a.Set(reflect.AppendSlice(a.Slice(r.IntN(2), a.Len()), b.Slice(0, 1)))
			}
			return
		}
	case reflect.Map:
		if !whole && !a.IsNil() {
			for _, k := range b.MapKeys() {
				a.SetMapIndex(k, b.MapIndex(k))
			}
			return
		}
	}
	a.Set(b)
}

// TestUpdateKeepsTimes: only the entry of the manager that changes something gets a new time.
func TestUpdateKeepsTimes(t *testing.T) {
	types, target := podTarget(t)
	p := New(types, target).planned()
	first, second := time.Unix(1000, 0), time.Unix(2000, 0)
	pod := registrytest.Pod()
	pod.Spec.Containers[0].Env = nil // duplicates are for structured merge
	var ok bool
	if pod.ManagedFields, ok = p.update(&corev1.Pod{}, pod, "a", first); !ok || len(pod.ManagedFields) != 1 {
		t.Fatal("the creation isn't tracked", ok, pod.ManagedFields)
	}
	pod.UID = "u"
	next := pod.DeepCopy()
	next.Labels["app"] = "other"
	got, ok := p.update(pod, next, "b", second)
	if !ok || len(got) != 2 || got[0].Manager != "a" || !got[0].Time.Time.Equal(first) ||
		got[1].Manager != "b" || !got[1].Time.Time.Equal(second) {
		t.Errorf("%v %v", ok, got)
	}
	again := next.DeepCopy()
	next.ManagedFields, again.ManagedFields = got, nil
	again.Labels["app"] = "third"
	got, ok = p.update(next, again, "b", second)
	if !ok || len(got) != 2 || got[0].FieldsV1.GetRawString() != next.ManagedFields[0].FieldsV1.GetRawString() {
		t.Errorf("%v %v", ok, got)
	}
}

func BenchmarkUpdate(b *testing.B) {
	types, target := podTarget(b)
	m := New(types, target)
	pod := registrytest.Pod()
	pod.Spec.Containers[0].Env = pod.Spec.Containers[0].Env[:1]
	b.Run("create", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			m.Update(nil, pod, "bench")
			pod.ManagedFields = nil
		}
	})
	b.Run("update", func(b *testing.B) {
		m.Update(nil, pod, "bench")
		next := pod.DeepCopy()
		next.Status.Message = "changed"
		b.ReportAllocs()
		for b.Loop() {
			next.ManagedFields = pod.ManagedFields
			m.Update(pod, next, "kubelet")
		}
	})
	b.Run("merged", func(b *testing.B) {
		next := pod.DeepCopy()
		next.Status.Message = "changed"
		b.ReportAllocs()
		for b.Loop() {
			next.ManagedFields = pod.ManagedFields
			m.merged.update(pod, next, "kubelet")
		}
	})
}
