package apiserver_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// converting is a webhook that renames spec.size to spec.length in v2, and back, and counts in an annotation how often.
func converting(t *testing.T, broken *atomic.Bool) apiextensionsv1.WebhookClientConfig {
	return convertingAndCounted(t, broken, new(atomic.Int32))
}

// convertingAndCounted counts what it was asked, too.
func convertingAndCounted(t *testing.T, broken *atomic.Bool, asked *atomic.Int32) apiextensionsv1.WebhookClientConfig {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		review := &apiextensionsv1.ConversionReview{}
		if err := json.NewDecoder(r.Body).Decode(review); err != nil {
			t.Error(err)
		}
		review.Response = &apiextensionsv1.ConversionResponse{UID: review.Request.UID,
			Result: metav1.Status{Status: metav1.StatusSuccess}}
		fails := broken.Load() // before the test knows that it was asked, and breaks it for the next
		asked.Add(1)
		if fails {
			review.Response.Result = metav1.Status{Status: metav1.StatusFailure, Message: "out of order"}
		}
		for _, raw := range review.Request.Objects {
			u := &unstructured.Unstructured{}
			if err := u.UnmarshalJSON(raw.Raw); err != nil {
				t.Error(err)
			}
			if u.GetName() == "" {
				t.Errorf("asked to convert what is no object: %s", raw.Raw)
			}
			from, to := "size", "length"
			if strings.HasSuffix(review.Request.DesiredAPIVersion, "v1") {
				from, to = to, from
			}
			if value, ok, _ := unstructured.NestedInt64(u.Object, "spec", from); ok {
				unstructured.RemoveNestedField(u.Object, "spec", from)
				_ = unstructured.SetNestedField(u.Object, value, "spec", to)
			}
			u.SetAPIVersion(review.Request.DesiredAPIVersion)
			u.SetAnnotations(map[string]string{"rounds": u.GetAnnotations()["rounds"] + "I"})
			review.Response.ConvertedObjects = append(review.Response.ConvertedObjects, runtime.RawExtension{Object: u})
		}
		review.Request = nil
		_ = json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return apiextensionsv1.WebhookClientConfig{URL: new(server.URL + "/convert"), CABundle: ca}
}

func convertedDefinition(config apiextensionsv1.WebhookClientConfig) *apiextensionsv1.CustomResourceDefinition {
	version := func(name, field string, stored bool) apiextensionsv1.CustomResourceDefinitionVersion {
		return apiextensionsv1.CustomResourceDefinitionVersion{
			Name: name, Served: true, Storage: stored, Schema: &apiextensionsv1.CustomResourceValidation{
				OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object",
					Properties: map[string]apiextensionsv1.JSONSchemaProps{
						"spec": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
							field: {Type: "integer", Maximum: new(float64(9))},
						}},
					}},
			},
		}
	}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Kind: "Widget"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{version("v1", "size", true),
				version("v2", "length", false)},
			Conversion: &apiextensionsv1.CustomResourceConversion{
				Strategy: apiextensionsv1.WebhookConverter,
				Webhook: &apiextensionsv1.WebhookConversion{ConversionReviewVersions: []string{"v1"},
					ClientConfig: &config},
			},
		},
	}
}

func TestCustomResourceIsConvertedByWebhook(t *testing.T) {
	f := startDynamic(t)
	var broken atomic.Bool
	f.define(t, convertedDefinition(converting(t, &broken)))
	f.create(t, "a", `spec: {size: 3}`)
	newer := widgets
	newer.Version = "v2"
	v2 := f.dynamic.Resource(newer).Namespace("default")
	a, err := v2.Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil || asJSON(t, a.Object["spec"]) != `{"length":3}` {
		t.Fatalf("as v2: %v, %v", a, err)
	}
	if _, err = v2.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"spec":{"length":5}}`),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err = v2.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"spec":{"length":50}}`),
		metav1.PatchOptions{}); err == nil || !strings.Contains(err.Error(), "spec.length") {
		t.Errorf("a value that v2 forbids: %v", err)
	}
	stored, err := f.widgets().Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil || asJSON(t, stored.Object["spec"]) != `{"size":5}` {
		t.Errorf("as v1: %v, %v", stored, err)
	}
	if list, err := v2.List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) != 1 ||
		list.Items[0].GetAPIVersion() != "example.com/v2" {
		t.Errorf("list as v2: %v, %v", list, err)
	}
	broken.Store(true)
	f.create(t, "b", `spec: {size: 4}`)
	if _, err := v2.Get(t.Context(), "b", metav1.GetOptions{}); err == nil ||
		!strings.Contains(err.Error(), "conversion webhook for example.com/v1, Kind=Widget failed: out of order") {
		t.Errorf("through a broken webhook: %v", err)
	}
}

// TestListsWhileNobodyConverts: objects that were converted when they were written can still be read; while a later
// object can't be converted, a version has no lists and watches, as with upstream's caches, and open watches end
// without an error.
func TestListsWhileNobodyConverts(t *testing.T) {
	f := startDynamic(t)
	var broken atomic.Bool
	f.define(t, convertedDefinition(converting(t, &broken)))
	f.create(t, "a", `spec: {size: 3}`)
	const all = "/apis/example.com/v2/namespaces/default/widgets"
	if code, text := f.sent(t, "GET", all, "", ""); code != http.StatusOK {
		t.Fatalf("%d %s", code, text)
	}
	newer := widgets
	newer.Version = "v2"
	w, err := f.dynamic.Resource(newer).Namespace("default").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	<-w.ResultChan()
	broken.Store(true)
	if code, text := f.sent(t, "GET", all, "", ""); code != http.StatusOK || !strings.Contains(text, `"length":3`) {
		t.Errorf("what was converted before: %d %s", code, text)
	}
	f.create(t, "b", `spec: {size: 4}`)
	if e, ok := <-w.ResultChan(); ok {
		t.Errorf("the watch goes on: %v", e)
	}
	const want = "storage is (re)initializing: failed to list example.com/v2, Kind=Widget: conversion webhook for " +
		"example.com/v1, Kind=Widget failed: out of order"
	for _, path := range []string{all, all + "?labelSelector=x", all + "?watch=1"} {
		if code, text := f.sent(t, "GET", path, "", ""); code != http.StatusTooManyRequests ||
			!strings.Contains(text, want) {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}
	// which upstream reads from the store
	for _, asked := range [][2]string{{"GET", all + "?limit=9"}, {"DELETE", all}} {
		if code, text := f.sent(t, asked[0], asked[1], "", ""); code != http.StatusInternalServerError ||
			!strings.Contains(text, "failed: out of order") {
			t.Errorf("%s: %d %s", asked, code, text)
		}
	}
	broken.Store(false)
	if code, text := f.sent(t, "GET", all, "", ""); code != http.StatusOK || !strings.Contains(text, `"length":4`) {
		t.Errorf("mended: %d %s", code, text)
	}
}

// TestWhatNobodyCanBeAskedFor: a definition whose webhook can't be resolved exists, and its resources can't be read.
func TestWhatNobodyCanBeAskedFor(t *testing.T) {
	f := startDynamic(t)
	crd := convertedDefinition(
		apiextensionsv1.WebhookClientConfig{URL: new("https://127.0.0.1:1/"), CABundle: []byte("none")})
	if _, err := f.definitions.ApiextensionsV1().CustomResourceDefinitions().Create(t.Context(), crd,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	const all = "/apis/example.com/v1/namespaces/default/widgets"
	eventually(t, "that nothing is known", func() bool {
		code, text := f.sent(t, "GET", all, "", "")
		return code == http.StatusInternalServerError && strings.Contains(text, "error resolving resource")
	})
	if code, text := f.sent(t, "GET", "/apis/example.com/v1", "", ""); code != http.StatusNotFound {
		t.Errorf("discovery tells of it: %d %s", code, text)
	}
}

// TestObjectsAreConvertedWhenTheyAreWritten, whether or not they are read then.
func TestObjectsAreConvertedWhenTheyAreWritten(t *testing.T) {
	f := startDynamic(t)
	var broken atomic.Bool
	var asked atomic.Int32
	f.define(t, convertedDefinition(convertingAndCounted(t, &broken, &asked)))
	f.create(t, "a", `spec: {size: 3}`)
	eventually(t, "the webhook to be asked", func() bool { return asked.Load() > 0 })
	broken.Store(true)
	eventually(t, "the object to be there in v2", func() bool {
		code, _ := f.sent(t, "GET", "/apis/example.com/v2/namespaces/default/widgets/a?resourceVersion=0", "", "")
		return code == http.StatusOK
	})
}

func TestBookmarkOfAnotherVersionNeedsNoWebhook(t *testing.T) {
	f := startDynamic(t)
	var broken atomic.Bool
	broken.Store(true)
	f.define(t, convertedDefinition(converting(t, &broken)))
	newer := widgets
	newer.Version = "v2"
	w, err := f.dynamic.Resource(newer).Namespace("default").Watch(t.Context(), metav1.ListOptions{
		SendInitialEvents: new(true), AllowWatchBookmarks: true,
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	e := <-w.ResultChan()
	u, ok := e.Object.(*unstructured.Unstructured)
	if !ok || e.Type != watch.Bookmark || u.GetAPIVersion() != "example.com/v2" ||
		u.GetAnnotations()[metav1.InitialEventsAnnotationKey] != "true" {
		t.Errorf("the end of the initial events: %s %v", e.Type, e.Object)
	}
}

func TestWhatAWebhookAddsIsManagedByNobody(t *testing.T) {
	f := startDynamic(t)
	var broken atomic.Bool
	f.define(t, convertedDefinition(converting(t, &broken)))
	newer := widgets
	newer.Version = "v2"
	v2 := f.dynamic.Resource(newer).Namespace("default")
	made := &unstructured.Unstructured{}
	if err := made.UnmarshalJSON(
		[]byte(`{"apiVersion":"example.com/v2","kind":"Widget","metadata":{"name":"a"},"spec":{"length":3}}`)); err != nil {
		t.Fatal(err)
	}
	fields := func(u *unstructured.Unstructured, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		if u.GetAnnotations()["rounds"] == "" {
			t.Fatalf("the webhook added nothing: %v", u)
		}
		var all []string
		for _, e := range u.GetManagedFields() {
			all = append(all, e.Manager+" "+e.FieldsV1.GetRawString())
		}
		return strings.Join(all, "; ")
	}
	const first = `first {"f:spec":{".":{},"f:length":{}}}`
	if got := fields(v2.Create(t.Context(), made, metav1.CreateOptions{FieldManager: "first"})); got != first {
		t.Errorf("created: %s", got)
	}
	a, err := v2.Get(t.Context(), "a", metav1.GetOptions{})
	if got := fields(a, err); got != first {
		t.Errorf("got: %s", got)
	}
	applied := made.DeepCopy()
	applied.SetName("b")
	if got := fields(v2.Apply(t.Context(), "b", applied,
		metav1.ApplyOptions{FieldManager: "first"})); got != `first {"f:spec":{"f:length":{}}}` {
		t.Errorf("applied: %s", got)
	}
	if got := fields(v2.Update(t.Context(), a, metav1.UpdateOptions{FieldManager: "second"})); got != first {
		t.Errorf("updated with the same: %s", got)
	}
	if got := fields(v2.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"metadata":{"labels":{"x":"y"}}}`),
		metav1.PatchOptions{FieldManager: "third"})); got != first+`; third {"f:metadata":{"f:labels":{".":{},"f:x":{}}}}` {
		t.Errorf("patched: %s", got)
	}
}

// TestFieldsOfAnOldVersionOutliveANewStoredOne: a stored object is read in its own version, not in the current storage
// version, and managers are recorded in the version of their request.
func TestFieldsOfAnOldVersionOutliveANewStoredOne(t *testing.T) {
	f := startDynamic(t)
	crd := convertedDefinition(apiextensionsv1.WebhookClientConfig{})
	crd.Spec.Conversion = nil
	f.define(t, crd)
	f.create(t, "a", `spec: {size: 3}`)
	definitions := f.definitions.ApiextensionsV1().CustomResourceDefinitions()
	crd, err := definitions.Get(t.Context(), crd.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range crd.Spec.Versions {
		crd.Spec.Versions[i].Storage = crd.Spec.Versions[i].Name == "v2"
	}
	if _, err = definitions.Update(t.Context(), crd, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	newer := widgets
	newer.Version = "v2"
	v2 := f.dynamic.Resource(newer).Namespace("default")
	eventually(t, "v2 to be stored", func() bool {
		if _, err := f.widgets().Create(t.Context(), widget(t, "probe", `spec: {size: 1}`),
			metav1.CreateOptions{}); err != nil {
			return false
		}
		probe, err := f.widgets().Get(t.Context(), "probe", metav1.GetOptions{})
		_ = f.widgets().Delete(t.Context(), "probe", metav1.DeleteOptions{})
		return err == nil && asJSON(t, probe.Object["spec"]) == `{}`
	})
	for _, c := range []struct {
		read interface {
			Get(ctx context.Context, name string, o metav1.GetOptions, sub ...string) (*unstructured.Unstructured,
				error)
		}
		spec string
	}{{f.widgets(), `{"size":3}`}, {v2, `{}`}} {
		if a, err := c.read.Get(t.Context(), "a", metav1.GetOptions{}); err != nil ||
			asJSON(t, a.Object["spec"]) != c.spec {
			t.Errorf("want %s, got %v, %v", c.spec, a, err)
		}
	}
	b := widget(t, "b", `spec: {length: 5}`)
	b.SetAPIVersion("example.com/v2")
	if _, err := v2.Create(t.Context(), b, metav1.CreateOptions{FieldManager: "new"}); err != nil {
		t.Fatal(err)
	}
	old, err := f.widgets().Get(t.Context(), "b", metav1.GetOptions{})
	if err != nil || asJSON(t, old.Object["spec"]) != `{}` {
		t.Errorf("written as v2, read as v1: %v, %v", old, err)
	}
	managed := old.GetManagedFields()
	if len(managed) != 1 || managed[0].APIVersion != "example.com/v2" ||
		!strings.Contains(string(managed[0].FieldsV1.GetRawBytes()), "f:length") {
		t.Errorf("booked: %s", asJSON(t, managed))
	}
}

// TestObjectsOfAVersionThatIsGone: a definition that forgets what lies in the store has no lists of it.
func TestObjectsOfAVersionThatIsGone(t *testing.T) {
	f := startDynamic(t)
	crd := convertedDefinition(apiextensionsv1.WebhookClientConfig{})
	crd.Spec.Conversion = nil
	f.define(t, crd)
	f.create(t, "a", `spec: {size: 3}`)
	definitions := f.definitions.ApiextensionsV1().CustomResourceDefinitions()
	change := func(change func(*apiextensionsv1.CustomResourceDefinition),
		update func(context.Context, *apiextensionsv1.CustomResourceDefinition,
			metav1.UpdateOptions) (*apiextensionsv1.CustomResourceDefinition, error)) {
		t.Helper()
		eventually(t, "the definition to change", func() bool {
			now, err := definitions.Get(t.Context(), crd.Name, metav1.GetOptions{})
			if err != nil {
				return false
			}
			change(now)
			_, err = update(t.Context(), now, metav1.UpdateOptions{})
			return err == nil
		})
	}
	change(func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.Spec.Versions[0].Storage, crd.Spec.Versions[1].Storage = false, true
	}, definitions.Update)
	change(func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Status.StoredVersions = []string{"v2"} },
		definitions.UpdateStatus)
	change(func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec.Versions = crd.Spec.Versions[1:] },
		definitions.Update)
	const why = "request to convert CR from an invalid group/version: example.com/v1"
	eventually(t, "no more lists", func() bool {
		code, text := f.sent(t, "GET", "/apis/example.com/v2/widgets", "", "")
		return code == http.StatusTooManyRequests &&
			strings.Contains(text, "storage is (re)initializing: failed to list example.com/v2, Kind=Widget: "+why)
	})
	if code, text := f.sent(t, "GET", "/apis/example.com/v2/widgets?watch=1", "",
		""); code != http.StatusTooManyRequests {
		t.Errorf("watch: %d %s", code, text)
	}
	if code, text := f.sent(t, "GET", "/apis/example.com/v2/namespaces/default/widgets/a", "",
		""); code != http.StatusInternalServerError || !strings.Contains(text, why) {
		t.Errorf("get: %d %s", code, text)
	}
}
