package handlers

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"quintet.dev/quintet/components/apiserver/codec"
	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/registry"
	"quintet.dev/quintet/components/apiserver/registry/registrytest"
)

// TestPlainPatches: over all kinds, what becomes of an object by a plain patch is what becomes of it by way of maps and
// text.
func TestPlainPatches(t *testing.T) {
	api := apiOfAll(t)
	told := 0
	for key, d := range api.endpoints {
		name := d.GVR.String() + "/" + key.Subresource
		if !d.HasStoredType() {
			continue
		}
		r, fill := rand.New(rand.NewPCG(3, 3)), registrytest.RandomFiller(3)
		for range 4 {
			current, other := d.Kind.HubVersion().New(), d.Kind.HubVersion().New()
			fill.Fill(current)
			fill.Fill(other)
			current = again(t, d, current)
			patch := plainPatch(t, r, other)
			for _, kind := range []types.PatchType{types.MergePatchType, types.StrategicMergePatchType} {
				p := &patcher{call: newCall(exchange{endpoint: d, api: api}, registry.Request{}), kind: kind,
					body: patch, options: &metav1.PatchOptions{FieldValidation: metav1.FieldValidationStrict}}
				before := current.DeepCopyObject()
				got, ok := p.plainly(current)
				if diff := cmp.Diff(before, current); diff != "" {
					t.Fatalf("%s: the current object is changed\n%s", name, diff)
				}
				if !ok {
					continue
				}
				told++
				want := d.Version.New()
				if err := byMaps(p, current, want); err != nil {
					t.Fatalf("%s: %s is refused: %v", name, patch, err)
				}
				if diff := cmp.Diff(again(t, d, want), again(t, d, got)); diff != "" {
					t.Fatalf("%s: %s: -by maps +plainly\n%s", name, patch, diff)
				}
			}
		}
	}
	if told < 200 {
		t.Errorf("only %d patches are plain", told)
	}
}

// apiOfAll serves all kinds, without a store.
func apiOfAll(t *testing.T) *API {
	t.Helper()
	scheme := codec.NewScheme()
	var resources []registry.Resource
	for _, kind := range kinds.Table(api.Deps{}) {
		resources = append(resources, registry.Resource{Kind: kind})
	}
	return New(Config{
		Registry: registry.New(registry.Config{Scheme: scheme, Resources: resources}),
		Scheme:   scheme, Codec: codec.NewCodec(scheme),
	})
}

// again is an object as it is when it has been stored as JSON.
func again(t *testing.T, d *endpoint, obj api.Object) api.Object {
	t.Helper()
	text, err := json.Marshal(codec.WithKind(obj, d.GVK))
	out := d.Version.New()
	if err == nil {
		err = json.Unmarshal(text, out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func byMaps(p *patcher, current api.Object, into runtime.Object) error {
	if p.kind == types.StrategicMergePatchType {
		return p.strategic(current, into)
	}
	text, err := json.Marshal(codec.WithKind(current, p.GVK))
	if err != nil {
		return err
	}
	_, _, err = p.textual(text, into.(api.Object))
	return err
}

// plainPatch makes a patch of some of what an object has, but lists.
func plainPatch(t *testing.T, r *rand.Rand, obj api.Object) []byte {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		t.Fatal(err)
	}
	delete(content, "apiVersion")
	delete(content, "kind")
	few(r, content)
	body, err := json.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func few(r *rand.Rand, content map[string]any) {
	for k, v := range content {
		below, isMap := v.(map[string]any)
		if _, isList := v.([]any); isList || v == nil || !isMap && r.IntN(4) > 0 || isMap && r.IntN(2) == 0 {
			delete(content, k)
			continue
		}
		if few(r, below); isMap && len(below) == 0 {
			delete(content, k)
		}
	}
}

func TestPlainly(t *testing.T) {
	pods := apiOfAll(t).endpoints[registry.Key{GroupVersion: corev1.SchemeGroupVersion, Resource: "pods"}]
	for _, c := range []struct {
		body string
		want bool
	}{
		{`{"metadata":{"labels":{"app":"y","new":"1"}}}`, true},
		{`{"metadata":{"labels":{"app":null,"new":"1"}}}`, true},
		{`{"metadata":{"labels":{"app":null,"tier":null}}}`, false},
		{`{"metadata":{"annotations":{"new":"1"}},"status":{"message":"m","phase":"Running"}}`, true},
		{`{"metadata":{"finalizers":["a/b"]}}`, false},
		{`{"metadata":{"labels":{"$patch":"replace"}}}`, false},
		{`{"status":null}`, false},
		{`{"status":{"unknown":"x"}}`, false},
		{`{"status":{"message":1}}`, false},
		{`{"status":{"message":"1","message":"2"}}`, false},
		{`{"kind":"Pod"}`, false},
		{`{}`, false},
		{`[]`, false},
	} {
		p := &patcher{call: &call{exchange: exchange{endpoint: pods}}, kind: types.MergePatchType, body: []byte(c.body),
			options: &metav1.PatchOptions{}}
		current := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a",
			Labels: map[string]string{"app": "x", "tier": "z"}}}
		if _, ok := p.plainly(current); ok != c.want {
			t.Errorf("%s: plain is %t", c.body, ok)
		}
	}
}
