package manifests

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery/cached/memory"
	fakediscovery "k8s.io/client-go/discovery/fake"
	fakedynamic "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/restmapper"
	ktesting "k8s.io/client-go/testing"
)

func TestDecode(t *testing.T) {
	const pod, service = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: ns}\n",
		"apiVersion: v1\nkind: Service\nmetadata: {name: b}\n"
	const list = "apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: Pod, metadata: {name: c}}, " +
		"{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}}]\n"
	for name, test := range map[string]struct {
		content string
		want    []string
		err     string
	}{
		"documents": {pod + "---\n# nothing\n---\n" + service, []string{"Pod (v1) ns/a", "Service (v1) b"}, ""},
		"JSON":      {`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}`, []string{"Pod (v1) a"}, ""},
		"a list":    {list + "---\n" + service, []string{"Pod (v1) c", "Deployment (apps/v1) d", "Service (v1) b"}, ""},
		"nothing":   {"# nothing\n", nil, "f: no object in it"},
		"no name": {pod + "---\napiVersion: v1\nkind: Pod\n", nil,
			`f:5: document 2: an object needs apiVersion, kind and metadata.name; it has "v1", "Pod" and ""`},
		"broken":      {pod + "---\n{\n", nil, "f:5: document 2: not YAML: "},
		"wrong":       {pod + "---\n# Indentation.\na: 1\n b: 2\n", nil, "f:7: document 2: not YAML: "},
		"no object":   {pod + "---\n\n[1]\n", nil, "f:6: document 2: "},
		"broken list": {"apiVersion: v1\nkind: List\nitems: [1]\n", nil, "f:1: document 1: "},
	} {
		objects, err := Decode("f", []byte(test.content))
		var got []string
		for _, o := range objects {
			got = append(got, describe(o))
		}
		if !slices.Equal(got, test.want) || (err == nil) != (test.err == "") ||
			err != nil && !strings.HasPrefix(err.Error(), test.err) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	for name, object := range map[string]string{"b.yaml": "b", "a.json": "a", "c.yml": "c", "README.md": "no"} {
		content := `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "` + object + `"}}`
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	below := filepath.Join(dir, "below.yaml")
	if err := os.Mkdir(below, 0o700); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{dir: "a b c", filepath.Join(dir, "b.yaml"): "b", below: "",
		filepath.Join(dir, "none"): ""} {
		objects, err := Read(path)
		var names []string
		for _, o := range objects {
			names = append(names, o.GetName())
		}
		if got := strings.Join(names, " "); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
}

func object(kind schema.GroupVersionKind, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kind)
	o.SetName(name)
	return o
}

var (
	crdKind = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
	toyKind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Toy"}
)

// TestStages: definitions come first, then namespaces, and the rest in its own order.
func TestStages(t *testing.T) {
	core := schema.GroupVersion{Version: "v1"}
	got := stages([]*unstructured.Unstructured{
		object(toyKind, "a"), object(core.WithKind("Namespace"), "b"), object(core.WithKind("Pod"), "c"),
		object(crdKind, "d"), object(schema.GroupVersionKind{Group: "x", Version: "v1", Kind: "Namespace"}, "e"),
	})
	var names []string
	for _, stage := range got {
		for _, o := range stage {
			names = append(names, o.GetName())
		}
		names = append(names, "|")
	}
	if want := "d | b | a c e |"; strings.Join(names, " ") != want {
		t.Errorf("%v, want %s", names, want)
	}
}

// TestEstablished: a definition is waited for until it is served, and no longer than its names are not refused.
func TestEstablished(t *testing.T) {
	crd := func(conditions ...any) *unstructured.Unstructured {
		o := object(crdKind, "toys.example.com")
		o.Object["status"] = map[string]any{"conditions": conditions}
		return o
	}
	condition := func(kind, status string) any {
		return map[string]any{"type": kind, "status": status, "reason": "R", "message": "m"}
	}
	established, pending := crd(condition("Established", "True")), crd(condition("Established", "False"))
	for name, test := range map[string]struct {
		versions []*unstructured.Unstructured // one after the other, the last one for good
		want     string
	}{
		"at once": {[]*unstructured.Unstructured{established}, ""},
		"later":   {[]*unstructured.Unstructured{nil, pending, established}, ""},
		"names refused": {[]*unstructured.Unstructured{crd(condition("NamesAccepted", "False"))},
			"its names are not accepted: R: m"},
		"names accepted": {[]*unstructured.Unstructured{crd(condition("NamesAccepted", "True")), established}, ""},
		"never":          {[]*unstructured.Unstructured{crd()}, "it is not established: context canceled"},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		client := fakedynamic.NewSimpleDynamicClient(runtime.NewScheme())
		asked := 0
		client.PrependReactor("get", "*", func(ktesting.Action) (bool, runtime.Object, error) {
			if asked++; asked > len(test.versions) {
				cancel()
			}
			current := test.versions[min(asked, len(test.versions))-1]
			if current == nil {
				return false, nil, nil // not found
			}
			return true, current, nil
		})
		err := applier{client: client}.established(ctx, object(crdKind, "toys.example.com"))
		if (err == nil) != (test.want == "") || err != nil && err.Error() != test.want {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
	}
}

// TestResource: a kind that is served later is waited for, and objects without a namespace are in the default one.
func TestResource(t *testing.T) {
	served := &fakediscovery.FakeDiscovery{Fake: &ktesting.Fake{}}
	for _, test := range []struct {
		namespaced bool
		given      string
		want       string
	}{{true, "", "default"}, {true, "ns", "ns"}, {false, "", ""}} {
		served.Resources = []*metav1.APIResourceList{{GroupVersion: "example.com/v1", APIResources: []metav1.APIResource{
			{Name: "toys", SingularName: "toy", Kind: "Toy", Namespaced: test.namespaced},
		}}}
		client := fakedynamic.NewSimpleDynamicClient(runtime.NewScheme())
		a := applier{client, restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(served))}
		var applied ktesting.PatchActionImpl
		client.PrependReactor("patch", "*", func(action ktesting.Action) (bool, runtime.Object, error) {
			applied = action.(ktesting.PatchActionImpl)
			return true, object(toyKind, "a"), nil
		})
		o := object(toyKind, "a")
		o.SetNamespace(test.given)
		if err := a.apply(t.Context(), o); err != nil || applied.GetNamespace() != test.want ||
			applied.GetResource().Resource != "toys" || !*applied.PatchOptions.Force ||
			applied.PatchOptions.FieldManager != "quintet" {
			t.Errorf("%+v: %+v, %v", test, applied, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*poll)
		other := toyKind.GroupVersion().WithKind("Other")
		if err := a.apply(ctx, object(other, "b")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a kind that is never served: %v", err)
		}
		cancel()
	}
}
