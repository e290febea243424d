package apiserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	extensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/apiserver/options"
	"quintet.dev/quintet/components/apiserver/storage/memory"
)

// TestDefinitionChanges gives a served resource another schema, and another storage version.
func TestDefinitionChanges(t *testing.T) {
	f := startCustom(t)
	f.create(t, "a", `spec: {color: red}`)
	definitions := f.definitions.ApiextensionsV1().CustomResourceDefinitions()
	crd, err := definitions.Get(t.Context(), "widgets.example.com", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range crd.Spec.Versions {
		spec := crd.Spec.Versions[i].Schema.OpenAPIV3Schema.Properties["spec"]
		spec.Properties["taste"] = apiextensionsv1.JSONSchemaProps{Type: "string",
			Default: &apiextensionsv1.JSON{Raw: []byte(`"sweet"`)}}
		crd.Spec.Versions[i].Storage = crd.Spec.Versions[i].Name == "v1beta1"
	}
	if crd, err = definitions.Update(t.Context(), crd, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := asJSON(t, crd.Status.StoredVersions); got != `["v1","v1beta1"]` || crd.Generation != 2 {
		t.Errorf("stored versions %s, generation %d", got, crd.Generation)
	}
	err = wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, time.Minute, true,
		func(ctx context.Context) (bool, error) {
			a, err := f.widgets().Get(ctx, "a", metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			taste, _, _ := unstructured.NestedString(a.Object, "spec", "taste")
			return taste == "sweet" && a.GetAPIVersion() == "example.com/v1", nil
		})
	if err != nil {
		t.Fatal(err)
	}
	a, err := f.widgets().Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_ = unstructured.SetNestedField(a.Object, "sour", "spec", "taste")
	if a, err = f.widgets().Update(t.Context(), a, metav1.UpdateOptions{}); err != nil || a.GetGeneration() != 2 {
		t.Errorf("%v, %v", a, err)
	}
}

// Finalizers of custom resources need no path: operators have long named theirs after nothing but a domain.
func TestCustomResourceFinalizers(t *testing.T) {
	f := startCustom(t)
	a := widget(t, "a", `spec: {color: red}`)
	a.SetFinalizers([]string{"widget.example.com"})
	a, err := f.widgets().Create(t.Context(), a, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if a, err = f.widgets().UpdateStatus(t.Context(), a, metav1.UpdateOptions{}); err != nil {
		t.Error(err)
	}
	a.SetFinalizers([]string{"widget.example.com", "other"})
	if a, err = f.widgets().Update(t.Context(), a, metav1.UpdateOptions{}); err != nil {
		t.Error(err)
	}
	a.SetFinalizers([]string{"not a name"})
	if _, err = f.widgets().Update(t.Context(), a, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("a finalizer that is no name: %v", err)
	}
}

// TestCustomResourcesInGroupsOfTheProgram: a definition may be there, but what it defines can't be asked for where the
// program has a group of its own, though it is told of; where it has none, whatever it ends in, it can.
func TestCustomResourcesInGroupsOfTheProgram(t *testing.T) {
	f := startDynamic(t)
	for group, code := range map[string]int{"rbac.authorization.k8s.io": http.StatusNotFound,
		"snapshot.storage.k8s.io": http.StatusOK} {
		crd := widgetDefinition(t)
		crd.Name, crd.Spec.Group = "widgets."+group, group
		crd.Annotations = map[string]string{
			apiextensionsv1.KubeAPIApprovedAnnotation: "https://github.com/kubernetes/kubernetes/pull/1"}
		f.define(t, crd)
		for _, version := range []string{"v1", "v1beta1"} {
			path := "/apis/" + group + "/" + version + "/namespaces/default/widgets"
			eventually(t, path, func() bool {
				got, _ := f.sent(t, "GET", path, "", "")
				return got == code
			})
		}
		eventually(t, group+" in discovery", func() bool { return f.tells(t, group, "v1beta1", "widgets") })
		if _, paths := f.sent(t, "GET", "/openapi/v3", "", ""); !strings.Contains(paths, `"apis/`+group+`/v1beta1"`) {
			t.Errorf("no OpenAPI document of %s/v1beta1: %s", group, paths)
		}
		for document, want := range map[string]bool{"/openapi/v2": true,
			"/openapi/v3/apis/" + group + "/v1": group != rbacv1.GroupName} {
			if _, text := f.sent(t, "GET", document, "", ""); strings.Contains(text,
				`"/apis/`+group+`/v1/namespaces/{namespace}/widgets"`) != want {
				t.Errorf("%s tells of %s/v1 widgets: %v", document, group, !want)
			}
		}
		if got, _ := f.sent(t, "GET", "/apis/"+group+"/v1beta1", "", ""); got != code {
			t.Errorf("the version's own document: %d, want %d", got, code)
		}
		if own := group == rbacv1.GroupName; f.tells(t, group, "v1", "roles") != own ||
			f.tells(t, group, "v1", "widgets") == own {
			t.Errorf("%s/v1 is not told of as it is served", group)
		}
	}
}

// tells reports whether the aggregated form of discovery tells of a resource.
func (f *customFixture) tells(t *testing.T, group, version, resource string) bool {
	t.Helper()
	body, err := f.client(t).Discovery().RESTClient().Get().AbsPath("/apis").
		SetHeader("Accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList").DoRaw(t.Context())
	var list apidiscoveryv2.APIGroupDiscoveryList
	if err := errors.Join(err, json.Unmarshal(body, &list)); err != nil {
		t.Fatal(err)
	}
	for _, g := range list.Items {
		for _, v := range g.Versions {
			if g.Name == group && v.Version == version {
				return slices.ContainsFunc(v.Resources,
					func(r apidiscoveryv2.APIResourceDiscovery) bool { return r.Resource == resource })
			}
		}
	}
	return false
}

// A write of a whole object changes no status, and who manages the status in the version of the write keeps it. Who
// manages it in another version loses what the write would have changed: so upstream has it.
func TestWhoManagesAStatusThatAWriteNames(t *testing.T) {
	f := startCustom(t)
	for i, version := range []string{"v1", "v1beta1"} {
		a := f.create(t, "by-"+version, `spec: {color: red}`)
		_, err := f.widgets().Patch(t.Context(), a.GetName(), types.MergePatchType, []byte(`{"status":{"phase":"x"}}`),
			metav1.PatchOptions{FieldManager: "status"}, "status")
		if err != nil {
			t.Fatal(err)
		}
		resource := f.dynamic.Resource(widgets.GroupResource().WithVersion(version)).Namespace("default")
		a, err = resource.Patch(t.Context(), a.GetName(), types.MergePatchType,
			[]byte(`{"metadata":{"labels":{"a":"b"}},"status":{"phase":"y"}}`), metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var owned bool
		for _, e := range a.GetManagedFields() {
			owned = owned || e.Manager == "status" && strings.Contains(e.FieldsV1.GetRawString(), "f:phase")
		}
		if phase, _, _ := unstructured.NestedString(a.Object, "status", "phase"); phase != "x" || owned != (i == 0) {
			t.Errorf("%s: %s, managed: %t", version, phase, owned)
		}
	}
}

// TestAppliedNulls are not shown, as they are not when the object is read from the store.
func TestAppliedNulls(t *testing.T) {
	f := startCustom(t)
	f.create(t, "a", `spec: {color: red}`)
	for _, sub := range [][]string{nil, {"status"}} {
		patch := []byte(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},"status":null}`)
		a, err := f.widgets().Patch(t.Context(), "a", types.ApplyPatchType, patch,
			metav1.PatchOptions{FieldManager: "m"}, sub...)
		if err != nil {
			t.Fatal(err)
		}
		if _, has := a.Object["status"]; has {
			t.Errorf("%v: %v", sub, a.Object)
		}
	}
}

// What was applied in a version that the definition no longer has can't be compared any more: applying says so, and
// other writes go on without managed fields, as upstream's do.
func TestManagedFieldsOfAVersionThatIsGone(t *testing.T) {
	f := startCustom(t)
	apply := func(version string) error {
		patch := []byte(`{"apiVersion":"example.com/` + version +
			`","kind":"Widget","metadata":{"name":"a"},"spec":{"color":"red"}}`)
		resource := f.dynamic.Resource(widgets.GroupResource().WithVersion(version)).Namespace("default")
		_, err := resource.Patch(t.Context(), "a", types.ApplyPatchType, patch,
			metav1.PatchOptions{FieldManager: "by-" + version})
		return err
	}
	if err := apply("v1beta1"); err != nil {
		t.Fatal(err)
	}
	definitions := f.definitions.ApiextensionsV1().CustomResourceDefinitions()
	crd, err := definitions.Get(t.Context(), "widgets.example.com", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	crd.Spec.Versions = crd.Spec.Versions[:1]
	if _, err := definitions.Update(t.Context(), crd, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	err = wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, time.Minute, true,
		func(context.Context) (bool, error) {
			return apierrors.IsNotFound(apply("v1beta1")), nil
		})
	if err != nil {
		t.Fatal(err)
	}
	if err := apply("v1"); err == nil ||
		!strings.Contains(err.Error(), "request to convert CR to an invalid group/version: example.com/v1beta1") {
		t.Errorf("apply: %v", err)
	}
	a, err := f.widgets().Patch(t.Context(), "a", types.MergePatchType, []byte(`{"spec":{"replicas":3}}`),
		metav1.PatchOptions{})
	if err != nil || len(a.GetManagedFields()) > 0 {
		t.Errorf("patch: %v, managed fields %v", err, a.GetManagedFields())
	}
	if err := apply("v1"); err != nil {
		t.Errorf("apply to what nobody manages: %v", err)
	}
}

// TestRequestsOutliveAChange sends requests while definitions change: none fails for that, and watches end without a
// word.
func TestRequestsOutliveAChange(t *testing.T) {
	f := startCustom(t)
	f.create(t, "a", `spec: {color: red}`)
	w, err := f.widgets().Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	changing, changed := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	for i := range 4 {
		clients.Go(func() {
			name := fmt.Sprint("of-", i)
			for changing.Err() == nil {
				if _, err := f.widgets().Create(t.Context(), widget(t, name, `spec: {color: blue}`),
					metav1.CreateOptions{}); err != nil {
					t.Error(err)
				}
				if _, err := f.widgets().Patch(t.Context(), name, types.MergePatchType,
					[]byte(`{"metadata":{"labels":{"x":"y"}}}`), metav1.PatchOptions{}); err != nil {
					t.Error(err)
				}
				if l, err := f.widgets().List(t.Context(), metav1.ListOptions{}); err != nil || len(l.Items) == 0 {
					t.Error(l, err)
				}
				if err := f.widgets().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	definitions := f.definitions.ApiextensionsV1().CustomResourceDefinitions()
	for i := range 20 {
		crd, err := definitions.Get(t.Context(), "widgets.example.com", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for v := range crd.Spec.Versions {
			properties := crd.Spec.Versions[v].Schema.OpenAPIV3Schema.Properties["spec"].Properties
			properties["taste"] = apiextensionsv1.JSONSchemaProps{Type: "string", MaxLength: new(int64(i + 1))}
		}
		if _, err := definitions.Update(t.Context(), crd, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		tastes := func(length int) error {
			tried := widget(t, "probe", fmt.Sprintf(`spec: {color: red, taste: %q}`, strings.Repeat("x", length)))
			_, err := f.widgets().Create(t.Context(), tried, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}
		eventually(t, "the new schema", func() bool { return tastes(i+1) == nil && apierrors.IsInvalid(tastes(i+2)) })
	}
	changed()
	clients.Wait()
	for e := range w.ResultChan() {
		if e.Type == watch.Error {
			t.Errorf("the watch ended with %v", e.Object)
		}
	}
}

// TestCustomResourcesOutliveTheServer reads them with another one on the same store, which is ready with them.
func TestCustomResourcesOutliveTheServer(t *testing.T) {
	store := memory.New(clock.RealClock{})
	t.Cleanup(func() { _ = store.Close() })
	shared := func(c *options.Config) { c.Store = store }
	first := &customFixture{fixture: start(t, shared)}
	first.definitions, first.dynamic = extensions.NewForConfigOrDie(first.as("admin")),
		dynamic.NewForConfigOrDie(first.as("admin"))
	first.define(t, widgetDefinition(t))
	first.create(t, "a", `spec: {color: red}`)
	first.stop()

	second := start(t, shared)
	a, err := dynamic.NewForConfigOrDie(second.as("admin")).Resource(widgets).Namespace("default").Get(t.Context(), "a",
		metav1.GetOptions{})
	if err != nil || a.GetGeneration() != 1 {
		t.Fatalf("%v, %v", a, err)
	}
	kv, err := store.Get(t.Context(), "/registry/example.com/widgets/default/a")
	if err != nil || kv.Value[0] != '{' {
		t.Errorf("stored: %s, %v", kv.Value, err)
	}
}

// TestCustomResourceMetadata is how the garbage and namespace controllers see them: as metadata in protobuf.
func TestCustomResourceMetadata(t *testing.T) {
	f := startCustom(t)
	client := metadata.NewForConfigOrDie(metadata.ConfigFor(f.as("admin"))).Resource(widgets).Namespace("default")
	w, err := client.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	f.create(t, "a", `spec: {color: red}`)
	if e := <-w.ResultChan(); e.Object.(*metav1.PartialObjectMetadata).Name != "a" {
		t.Errorf("watched %v", e)
	}
	if list, err := client.List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) != 1 {
		t.Errorf("listed %v, %v", list, err)
	}
	if err := client.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	if list, err := client.List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) != 0 {
		t.Errorf("left over %v, %v", list, err)
	}
}

// TestDefinitionSentAsProtobuf: Go programs leave Allows out beside a schema, which JSON, the form that is stored, has
// no place for.
func TestDefinitionSentAsProtobuf(t *testing.T) {
	f := startDynamic(t)
	config := f.as("admin")
	config.ContentType = runtime.ContentTypeProtobuf
	f.definitions = extensions.NewForConfigOrDie(config)
	crd := widgetDefinition(t)
	for i := range crd.Spec.Versions {
		crd.Spec.Versions[i].Schema.OpenAPIV3Schema.Properties["spec"].Properties["notes"] = apiextensionsv1.JSONSchemaProps{
			Type: "object",
			AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{
				Schema: &apiextensionsv1.JSONSchemaProps{Type: "string"}},
		}
	}
	f.define(t, crd)
	widget := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "noted"},
		"spec": map[string]any{"color": "red", "notes": map[string]any{"a": "b"}},
	}}
	created, err := f.dynamic.Resource(widgets).Namespace("default").Create(t.Context(), widget, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if note, _, _ := unstructured.NestedString(created.Object, "spec", "notes", "a"); note != "b" {
		t.Errorf("the note was pruned: %v", created.Object)
	}
}
