package kinds

import (
	"math/rand"
	"reflect"
	"testing"

	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/randfill"
)

func filler(seed int64) *randfill.Filler {
	return randfill.NewWithSeed(seed).NilChance(0.3).NumElements(1, 2).MaxDepth(12).Funcs(
		func(q *resource.Quantity, c randfill.Continue) {
			*q = *resource.NewMilliQuantity(c.Int63n(10_000), resource.DecimalSI)
		},
		func(i *intstr.IntOrString, c randfill.Continue) { *i = intstr.FromInt32(c.Int31n(100)) },
		func(t *metav1.Time, c randfill.Continue) { *t = metav1.Unix(c.Int63n(1e9), 0) },
		func(t *metav1.MicroTime, c randfill.Continue) {
			*t = metav1.NewMicroTime(metav1.Unix(c.Int63n(1e9), 0).Time)
		},
		func(f *metav1.FieldsV1, c randfill.Continue) {},
		func(j *apiextensionsv1beta1.JSON, c randfill.Continue) { j.Raw = []byte(`"a"`) },
		func(e *runtime.RawExtension, c randfill.Continue) { e.Raw = []byte(`{"a":"b"}`) },
	)
}

// each calls f with random objects of every version of every kind.
func each(t *testing.T, f func(t *testing.T, k *Kind, v *Version, obj Object)) {
	t.Helper()
	for _, k := range Table(Deps{}) {
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
	each(t, func(t *testing.T, _ *Kind, v *Version, obj Object) {
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

func TestConversionsKeepEverything(t *testing.T) {
	each(t, func(t *testing.T, k *Kind, v *Version, obj Object) {
		if v.ToHub == nil {
			return
		}
		hub := k.HubVersion().New()
		filler(1).Fill(hub)
		if k.HubVersion().Default != nil {
			k.HubVersion().Default(hub)
		}
		bare(hub)
		before := hub.DeepCopyObject()
		out, err := v.FromHub(hub)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(before, hub) {
			t.Fatal("FromHub changed its argument")
		}
		if reflect.TypeOf(out) != reflect.TypeOf(v.New()) {
			t.Fatalf("FromHub made a %T", out)
		}
		if _, err := v.ToHub(obj); err != nil {
			t.Fatal(err)
		}
	})
}

func TestHooksTakeAnything(t *testing.T) {
	each(t, func(t *testing.T, k *Kind, v *Version, obj Object) {
		if v.GroupVersion != k.Hub {
			return
		}
		if v.Default != nil {
			v.Default(obj)
		}
		old := obj.DeepCopyObject().(Object)
		strategies := []*Strategy{&k.Strategy}
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
		if k.Row != nil && len(k.Row(obj, metav1.Unix(0, 0).Time)) != cellCount(k) {
			t.Fatal("row doesn't fit columns")
		}
	})
}

// An update that changes nothing is not a change, and is allowed.
func TestStatusWritesKeepTheSpec(t *testing.T) {
	each(t, func(t *testing.T, k *Kind, v *Version, obj Object) {
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

func bare(obj Object) {
	obj.SetAnnotations(nil)
	obj.SetManagedFields(nil)
}
