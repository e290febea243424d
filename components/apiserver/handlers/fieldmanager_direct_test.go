package handlers

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/randfill"

	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/serial"
)

// bookedDoors are the endpoints of all kinds that have books.
func bookedDoors(t testing.TB) (*tracker, map[string]*endpoint) {
	t.Helper()
	scheme := serial.NewScheme()
	var resources []Resource
	for _, kind := range kinds.Table(kinds.Deps{}) {
		resources = append(resources, Resource{Kind: kind})
	}
	a := New(Config{Scheme: scheme, Codec: serial.NewCodec(scheme), Resources: resources})
	out := map[string]*endpoint{}
	for _, d := range a.endpoints {
		if d.books != nil {
			name := d.gvr.String()
			if d.sub != nil {
				name += "/" + d.sub.Name
			}
			out[name] = d
		}
	}
	return a.tracker, out
}

// referenceOf is structured merge's own manager of an endpoint's fields, without any short cut.
func referenceOf(t testing.TB, tracker *tracker, d *endpoint) *managedfields.FieldManager {
	t.Helper()
	sub := ""
	if d.sub != nil {
		sub = d.sub.Name
	}
	c := newConverter(d)
	whole, err := managedfields.NewDefaultFieldManager(tracker.types, c, c, c, d.gvk, d.kind.Hub, sub, filterOf(d))
	if err != nil {
		t.Fatal(err)
	}
	return whole
}

// TestBooksAreStructuredMerges: over all kinds, what the books say of random histories is what structured merge says.
func TestBooksAreStructuredMerges(t *testing.T) {
	tracker, endpoints := bookedDoors(t)
	if len(endpoints) < 90 {
		t.Errorf("only %d endpoints have books", len(endpoints))
	}
	for name, d := range endpoints {
		t.Run(name, func(t *testing.T) {
			told, all := 0, 0
			for seed := range int64(5) {
				a, b := compareHistory(t, tracker, d, seed)
				told, all = told+a, all+b
			}
			if told*4 < all*3 && !untold[d.kind.Name] {
				t.Errorf("the books tell of %d of %d writes", told, all)
			}
		})
	}
}

// untold are kinds with much of which the schema says only that it may be anything.
var untold = map[string]bool{"CustomResourceDefinition": true}

func FuzzBooksAreStructuredMerges(f *testing.F) {
	tracker, endpoints := bookedDoors(f)
	names := slices.Sorted(func(yield func(string) bool) {
		for name := range endpoints {
			if !yield(name) {
				return
			}
		}
	})
	f.Add(uint(0), int64(99))
	f.Fuzz(func(t *testing.T, i uint, seed int64) {
		compareHistory(t, tracker, endpoints[names[i%uint(len(names))]], seed)
	})
}

// compareHistory makes a random object and changes it again and again. It returns how many of the writes the books tell of.
func compareHistory(t *testing.T, tracker *tracker, d *endpoint, seed int64) (told, all int) {
	t.Helper()
	reference, b := referenceOf(t, tracker, d), d.books()
	r := rand.New(rand.NewPCG(uint64(seed), 1))
	fill := randomFiller(seed)
	make := func() kinds.Object {
		obj := d.kind.HubVersion().New()
		fill.Fill(obj)
		obj.SetManagedFields(nil)
		obj.GetObjectKind().SetGroupVersionKind(d.gvk)
		return obj
	}
	live, next := d.kind.HubVersion().New(), make()
	now := time.Now()
	for range 8 {
		manager := []string{"a", "b", "c<", ""}[r.IntN(4)]
		got, ok := b.Update(live, next, manager, now)
		all++
		want, err := reference.Update(copyOf(live), copyOf(next), manager)
		if err != nil {
			if ok {
				t.Fatalf("seed %d: structured merge fails: %v", seed, err)
			}
			return told, all
		}
		booked := want.(kinds.Object).GetManagedFields()
		if ok {
			told++
			if diff := cmp.Diff(shown(booked), shown(got)); diff != "" {
				t.Fatalf("seed %d: -structured merge +books\n%s", seed, diff)
			}
		}
		live = copyOf(next)
		live.SetManagedFields(booked)
		live.SetUID("u")
		if r.IntN(3) == 0 && len(booked) > 0 { // as if it had been applied
			booked[r.IntN(len(booked))].Operation = metav1.ManagedFieldsOperationApply
		}
		if r.IntN(6) == 0 { // nobody keeps clients from saying so
			booked = append(booked, metav1.ManagedFieldsEntry{Manager: "odd", Operation: "Update", APIVersion: d.gvk.GroupVersion().String(), FieldsType: "FieldsV1",
				FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:generation":{},"f:managedFields":{},"f:name":{},"f:uid":{}}}`)})
		}
		next = copyOf(live)
		mix(r, reflect.ValueOf(next).Elem(), reflect.ValueOf(make()).Elem())
		next.SetUID("u")
		next.SetManagedFields([][]metav1.ManagedFieldsEntry{nil, booked, booked, {}}[min(r.IntN(12), 3-r.IntN(3))])
	}
	return told, all
}

// TestNewObjectsAreStructuredMerges: what the books say of new objects, most of which are like others, is what structured merge says.
func TestNewObjectsAreStructuredMerges(t *testing.T) {
	tracker, endpoints := bookedDoors(t)
	for name, d := range endpoints {
		t.Run(name, func(t *testing.T) {
			reference, b, r := referenceOf(t, tracker, d), d.books(), rand.New(rand.NewPCG(1, 1))
			fill := randomFiller(1)
			for range 3 {
				next, other := d.kind.HubVersion().New(), d.kind.HubVersion().New()
				fill.Fill(next)
				fill.Fill(other)
				for range 6 {
					next.SetManagedFields(nil)
					next.SetUID("")
					next.GetObjectKind().SetGroupVersionKind(d.gvk)
					got, ok := b.Update(d.kind.HubVersion().New(), next, "a", time.Now())
					want, err := reference.Update(d.kind.HubVersion().New(), copyOf(next), "a")
					if ok && err != nil {
						t.Fatalf("structured merge fails: %v", err)
					}
					if ok {
						if diff := cmp.Diff(shown(want.(kinds.Object).GetManagedFields()), shown(got)); diff != "" {
							t.Fatalf("-structured merge +books\n%s", diff)
						}
					}
					mix(r, reflect.ValueOf(next).Elem(), reflect.ValueOf(copyOf(other)).Elem())
				}
			}
		})
	}
}

// shown are entries but for the times that they were written at, and the order that comes from these.
func shown(entries []metav1.ManagedFieldsEntry) (out []string) {
	for _, e := range entries {
		out = append(out, fmt.Sprintf("%s %s %s %s %s %t %s", e.Manager, e.Operation, e.APIVersion, e.Subresource, e.FieldsType, e.Time == nil, e.FieldsV1.GetRawString()))
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
			} else if f.Type != typeMeta && f.Type != managedFields && r.IntN(4) == 0 {
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

// randomFiller makes objects up that have a form in JSON.
func randomFiller(seed int64) *randfill.Filler {
	return randfill.NewWithSeed(seed).NilChance(0.3).NumElements(0, 3).MaxDepth(12).Funcs(
		func(q *resource.Quantity, c randfill.Continue) {
			*q = *resource.NewMilliQuantity(c.Int63n(10_000), resource.DecimalSI)
		},
		func(i *intstr.IntOrString, c randfill.Continue) {
			if *i = intstr.FromInt32(c.Int31n(100)); c.Bool() {
				*i = intstr.FromString(c.String(3))
			}
		},
		func(t *metav1.Time, c randfill.Continue) { *t = metav1.Unix(c.Int63n(1e9), 0) },
		func(t *metav1.MicroTime, c randfill.Continue) {
			*t = metav1.NewMicroTime(metav1.Unix(c.Int63n(1e9), 0).Time)
		},
		func(*metav1.TypeMeta, randfill.Continue) {},
		func(f *metav1.FieldsV1, _ randfill.Continue) { f.SetRawString(`{"f:a":{}}`) },
		func(j *apiextensionsv1.JSON, _ randfill.Continue) { j.Raw = []byte(`"a"`) },
		func(s *apiextensionsv1.JSONSchemaPropsOrArray, c randfill.Continue) {
			s.Schema = &apiextensionsv1.JSONSchemaProps{Type: c.String(5)}
		},
		func(s *apiextensionsv1.JSONSchemaPropsOrBool, _ randfill.Continue) { s.Allows = true },
		func(s *apiextensionsv1.JSONSchemaPropsOrStringArray, c randfill.Continue) {
			s.Property = []string{c.String(5)}
		},
		func(e *runtime.RawExtension, c randfill.Continue) { e.Raw = fmt.Appendf(nil, `{"a":"%d"}`, c.Intn(3)) },
		func(s *corev1.Secret, c randfill.Continue) { c.FillNoCustom(s); s.StringData = nil },
		func(s *string, c randfill.Continue) {
			*s = strings.ToValidUTF8(c.String(6), "?") + fmt.Sprint(c.Intn(50))
		},
	)
}

// TestBooksKeepTheirTimes: only the entry of who changes something gets a new time, and what nothing changes is shared.
func TestBooksKeepTheirTimes(t *testing.T) {
	d, tracker := podDoor(t)
	b := tracker.books(d)()
	first, second := time.Unix(1000, 0), time.Unix(2000, 0)
	pod := trackedPod()
	pod.Spec.Containers[0].Env = nil // duplicates are for structured merge
	var ok bool
	if pod.ManagedFields, ok = b.Update(&corev1.Pod{}, pod, "a", first); !ok || len(pod.ManagedFields) != 1 {
		t.Fatal("the creation isn't booked", ok, pod.ManagedFields)
	}
	pod.UID = "u"
	next := pod.DeepCopy()
	next.Labels["app"] = "other"
	got, ok := b.Update(pod, next, "b", second)
	if !ok || len(got) != 2 || got[0].Manager != "a" || !got[0].Time.Time.Equal(first) || got[1].Manager != "b" || !got[1].Time.Time.Equal(second) {
		t.Errorf("%v %v", ok, got)
	}
	again := next.DeepCopy()
	next.ManagedFields, again.ManagedFields = got, nil
	again.Labels["app"] = "third"
	got, ok = b.Update(next, again, "b", second)
	if !ok || len(got) != 2 || got[0].FieldsV1.GetRawString() != next.ManagedFields[0].FieldsV1.GetRawString() {
		t.Errorf("%v %v", ok, got)
	}
}

func BenchmarkBooks(b *testing.B) {
	d, tracker := podDoor(b)
	books := tracker.books(d)()
	pod := trackedPod()
	pod.Spec.Containers[0].Env = pod.Spec.Containers[0].Env[:1]
	now := time.Now()
	b.Run("create", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, ok := books.Update(&corev1.Pod{}, pod, "bench", now); !ok {
				b.Fatal("not told")
			}
		}
	})
	b.Run("update", func(b *testing.B) {
		pod.ManagedFields, _ = books.Update(&corev1.Pod{}, pod, "bench", now)
		next := pod.DeepCopy()
		next.Status.Message = "changed"
		b.ReportAllocs()
		for b.Loop() {
			if _, ok := books.Update(pod, next, "kubelet", now); !ok {
				b.Fatal("not told")
			}
		}
	})
}
