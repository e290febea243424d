package kinds_test

import (
	"math/rand"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// each calls f with random objects of every version of every kind.
func each(t *testing.T, f func(t *testing.T, k *api.Kind, v *api.Version, obj api.Object)) {
	t.Helper()
	for _, k := range kinds.Table(api.Deps{}) {
		for i := range k.Versions {
			v := &k.Versions[i]
			t.Run(v.WithKind(k.Name).String(), func(t *testing.T) {
				for seed := range int64(20) {
					obj := v.New()
					filler(rand.New(rand.NewSource(seed)).Int63()).Fill(obj)
					f(t, k, v, obj)
				}
			})
		}
	}
}

func TestDefaultingIsIdempotent(t *testing.T) {
	each(t, func(t *testing.T, _ *api.Kind, v *api.Version, obj api.Object) {
		if v.Default == nil {
			return
		}
		v.Default(obj)
		once := obj.DeepCopyObject()
		v.Default(obj)
		if !apiequality.Semantic.DeepEqual(once, obj) {
			t.Fatalf("defaults changed what was defaulted")
		}
	})
}

// TestConversionsKeepEverything: what is stored goes through every other version and comes back the same, and what
// comes in another version is shown in it the same.
func TestConversionsKeepEverything(t *testing.T) {
	each(t, func(t *testing.T, k *api.Kind, v *api.Version, obj api.Object) {
		if v.ToHub == nil {
			return
		}
		hub := k.HubVersion().New()
		filler(obj.GetGeneration()).Fill(hub)
		k.Reread(hub, false)
		bare(hub)
		before := hub.DeepCopyObject()
		shown, err := v.FromHub(hub)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(before, hub) {
			t.Fatal("FromHub changed its argument")
		}
		if reflect.TypeOf(shown) != reflect.TypeOf(v.New()) {
			t.Fatalf("FromHub made a %T", shown)
		}
		back, err := v.ToHub(shown.DeepCopyObject().(api.Object))
		if err != nil {
			t.Fatal(err)
		}
		sameObjects(t, "the hub form", hub, back)

		if v.Unserved {
			return // nothing comes in it
		}
		if v.Default != nil {
			v.Default(obj)
		}
		bare(obj)
		stored, err := v.ToHub(obj.DeepCopyObject().(api.Object))
		if err != nil {
			t.Fatal(err)
		}
		again, err := v.FromHub(stored)
		if err != nil {
			t.Fatal(err)
		}
		bare(again) // what has no field in a version is kept there in annotations
		sameObjects(t, v.String(), obj, again)
	})
}

// sameObjects compares all but what objects say of their own version.
func sameObjects(t *testing.T, what string, want, got api.Object) {
	t.Helper()
	for _, obj := range []api.Object{want, got} {
		obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	}
	if !apiequality.Semantic.DeepEqual(want, got) {
		t.Fatalf("%s changed on its way: %s", what, cmp.Diff(want, got))
	}
}

func TestHooksTakeAnything(t *testing.T) {
	each(t, func(t *testing.T, k *api.Kind, v *api.Version, obj api.Object) {
		if v.GroupVersion != k.Hub {
			return
		}
		if v.Default != nil {
			v.Default(obj)
		}
		old := obj.DeepCopyObject().(api.Object)
		strategies := []*api.Strategy[api.Object]{&k.Strategy}
		for i := range k.Subresources {
			if s := k.Subresources[i].Strategy; s != nil {
				strategies = append(strategies, s)
			}
			if s := k.Subresources[i].Scale; s != nil {
				s.Set(obj, 3)
				if spec, _ := s.Get(obj); spec.Replicas != 3 {
					t.Fatal("scale was not set")
				}
			}
		}
		ctx := t.Context()
		for _, s := range strategies {
			if s.PrepareCreate != nil {
				s.PrepareCreate(ctx, obj)
			}
			if s.PrepareUpdate != nil {
				s.PrepareUpdate(ctx, obj, old)
			}
			if s.Validate != nil {
				s.Validate(ctx, obj)
			}
			if s.ValidateUpdate != nil {
				s.ValidateUpdate(ctx, obj, old)
			}
			if s.Warnings != nil {
				s.Warnings(ctx, obj, nil)
				s.Warnings(ctx, obj, old)
			}
			if s.Canonicalize != nil {
				s.Canonicalize(obj)
			}
		}
		if k.Row != nil && len(k.Row(obj)) != cellCount(k) {
			t.Fatal("row doesn't fit columns")
		}
	})
}

// An update that changes nothing is not a change, and is allowed.
func TestStatusWritesKeepTheSpec(t *testing.T) {
	each(t, func(t *testing.T, k *api.Kind, v *api.Version, obj api.Object) {
		sub := k.Subresource("status")
		if v.GroupVersion != k.Hub || sub == nil {
			return
		}
		old := k.HubVersion().New()
		filler(7).Fill(old)
		before := old.DeepCopyObject()
		sub.Strategy.PrepareUpdate(t.Context(), obj, old)
		if !reflect.DeepEqual(before, old) {
			t.Fatal("old was changed")
		}
		spec := func(o any) any {
			f := reflect.ValueOf(o).Elem().FieldByName("Spec")
			if !f.IsValid() {
				return nil
			}
			return f.Interface()
		}
		if !apiequality.Semantic.DeepEqual(spec(obj), spec(old)) {
			t.Fatal("the status strategy let the spec through")
		}
	})
}

func bare(obj api.Object) {
	obj.SetAnnotations(nil)
	obj.SetManagedFields(nil)
}
