package handlers

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"quintet.dev/quintet/components/apiserver/codec"
	"quintet.dev/quintet/components/apiserver/registry"
	"quintet.dev/quintet/components/apiserver/registry/registrytest"
)

// TestStrategicInParts: only what the patch touches is merged as a map, and that shows in no outcome.
func TestStrategicInParts(t *testing.T) {
	patches := []string{
		`{"status":{"message":"m","conditions":[{"type":"Ready","status":"True"}]}}`,
		`{"metadata":{"labels":{"tier":null,"new":"1"}}}`,
		`{"metadata":{"finalizers":null},"spec":{"containers":[{"name":"main","image":"j"}]}}`,
		`{"status":null}`,
		`{"status":{"message":null,"phase":"Running"}}`,
		`{"status":{}}`,
		`{"metadata":{"annotations":{"a":"1"}},"spec":{"nodeSelector":null,"securityContext":{"runAsUser":1}}}`,
		`{"metadata":{"$patch":"replace","name":"a","namespace":"b"}}`,
		`{"spec":{"$retainKeys":["nodeName","containers"],"nodeName":"n"}}`,
		`{}`,
		`{"$retainKeys":["spec"],"spec":{"nodeName":"n"}}`,
		`{"spec":{"containers":[{"name":"main","$patch":"delete"}]}}`,
	}
	for _, text := range patches {
		current := registrytest.Pod()
		current.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
		current.ResourceVersion = "7"
		before := current.DeepCopy()
		got := &corev1.Pod{}
		p := patcher{call: &call{exchange: exchange{endpoint: merged}}, body: []byte(text),
			options: &metav1.PatchOptions{FieldValidation: metav1.FieldValidationStrict}}
		if err := p.strategic(current, got); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if diff := cmp.Diff(before, current); diff != "" {
			t.Errorf("%s: the current object is changed\n%s", text, diff)
		}
		if want := mergedWhole(t, current, text); !apiequality.Semantic.DeepEqual(want, got) {
			t.Errorf("%s: -whole +parts\n%s", text, cmp.Diff(want, got))
		}
		if got.Spec.NodeSelector != nil && got.Labels != nil {
			got.Spec.NodeSelector["n"] = "2"
			got.Labels["app"] = "changed"
			if diff := cmp.Diff(before, current); diff != "" {
				t.Errorf("%s: the outcome shares memory with the current object\n%s", text, diff)
			}
		}
	}
}

// merged is an endpoint to objects in which nothing is kept as it was written.
var merged = &endpoint{Endpoint: &registry.Endpoint{Verbatim: func() bool { return false }}}

func mergedWhole(t *testing.T, current *corev1.Pod, patch string) *corev1.Pod {
	t.Helper()
	text, err := json.Marshal(current)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := strategicpatch.StrategicMergePatch(text, []byte(patch), &corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	want := &corev1.Pod{}
	if err := json.Unmarshal(whole, want); err != nil {
		t.Fatal(err)
	}
	return want
}

func BenchmarkStrategicStatus(b *testing.B) {
	current := registrytest.Pod()
	current.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	p := patcher{call: &call{exchange: exchange{endpoint: merged}}, body: []byte(`{"status":{"message":"m"}}`),
		options: &metav1.PatchOptions{}}
	b.ReportAllocs()
	for b.Loop() {
		if err := p.strategic(current, &corev1.Pod{}); err != nil {
			b.Fatal(err)
		}
	}
}

// TestStrategicWritesAnew: what is kept as a client has written it goes through maps with the rest.
func TestStrategicWritesAnew(t *testing.T) {
	current := &appsv1.ControllerRevision{Data: runtime.RawExtension{Raw: []byte(`{ "b":1, "a":2 }`)}}
	verbatim := &endpoint{Endpoint: &registry.Endpoint{Verbatim: func() bool {
		return codec.IsVerbatim(reflect.TypeFor[appsv1.ControllerRevision]())
	}}}
	p := patcher{call: &call{exchange: exchange{endpoint: verbatim}}, body: []byte(`{"metadata":{"labels":{"a":"b"}}}`),
		options: &metav1.PatchOptions{}}
	got := &appsv1.ControllerRevision{}
	if err := p.strategic(current, got); err != nil {
		t.Fatal(err)
	}
	if string(got.Data.Raw) != `{"a":2,"b":1}` || got.Labels["a"] != "b" {
		t.Errorf("got %s, %v", got.Data.Raw, got.Labels)
	}
}
