package apiserver_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

// sent is the code and the body of the answer to a request of the administrator.
func (f *fixture) sent(t *testing.T, method, path, media, body string) (int, string) {
	t.Helper()
	client, err := rest.HTTPClientFor(f.as("admin"))
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), method, f.as("admin").Host+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if media != "" {
		request.Header.Set("Content-Type", media)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// TestCustomResourceRefusals: what is told of custom resources in other words than of built-in kinds.
func TestCustomResourceRefusals(t *testing.T) {
	f := startCustom(t)
	f.create(t, "a", `spec: {color: red}`)
	const all = "/apis/example.com/v1/namespaces/default/widgets"
	const scale = `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"a","namespace":"default"},"spec":{"replicas":-1}}`
	for name, c := range map[string]struct {
		method, path, media, body string
		code                      int
		want                      string
	}{
		"another kind": {"POST", all, "application/json",
			`{"apiVersion":"example.com/v1","kind":"Other","metadata":{"name":"x"},"spec":{"color":"red"}}`,
			422,
			`Other.example.com \"x\" is invalid: [kind: Invalid value: \"Other\": must be Widget, spec: Invalid value: \"object\": no such key: replicas evaluating rule: too many replicas]`},
		"fields of another version": {"POST", all + "?fieldValidation=Strict", "application/json",
			`{"apiVersion":"example.com/v9","kind":"Widget","metadata":{"name":"x"},"spec":{"color":"red"}}`,
			400, `Widget in version \"v9\" cannot be handled as a Widget: strict decoding error: unknown field \"spec\"`},
		"a field with a backslash": {"POST", all + "?fieldValidation=Strict", "application/json",
			`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"x"},"spec":{"color":"red","a\\b":1}}`,
			400, `strict decoding error: unknown field \"spec.a\\b\"`},
		"fields of a patched version": {"PATCH", all + "/a?fieldValidation=Strict", "application/merge-patch+json",
			`{"apiVersion":"example.com/v9"}`,
			422, `strict decoding error: unknown field \"spec\"`},
		"a definition as it is stored": {"POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
			"application/json",
			`{"apiVersion":"apiextensions.k8s.io/v1beta1","kind":"CustomResourceDefinition","metadata":{"name":"x"}}`,
			400,
			`the API version in the data (apiextensions.k8s.io/v1beta1) does not match the expected API version (apiextensions.k8s.io/v1)`},
		"a kind of another name": {"PATCH", all + "/a", "application/merge-patch+json",
			`{"kind":"Other","metadata":{"name":"b"}}`,
			400, `the name of the object (b) does not match the name on the URL (a)`},
		"a written kind of another name": {"PUT", all + "/a", "application/json",
			`{"apiVersion":"example.com/v1","kind":"Other","metadata":{"name":"b"}}`,
			400, `the name of the object (b) does not match the name on the URL (a)`},
		"a version taken away": {"PATCH", all + "/a", "application/merge-patch+json", `{"apiVersion":null}`,
			500, `Internal error occurred: Object 'apiVersion' is missing in 'object has no apiVersion field'`},
		"a version taken away of a status": {"PATCH", all + "/a/status", "application/merge-patch+json",
			`{"apiVersion":"","status":{"phase":"x"}}`,
			500, `Internal error occurred: Object 'apiVersion' is missing in 'object has no apiVersion field'`},
		"half a version": {"PATCH", all + "/a", "application/merge-patch+json", `{"apiVersion":"x/"}`,
			500, `Internal error occurred: Object 'apiVersion' is missing in 'object has no apiVersion field'`},
		"half a version of a status": {"PATCH", all + "/a/status", "application/merge-patch+json",
			`{"apiVersion":"example.com/","status":{"phase":"x"}}`,
			500, `Internal error occurred: Object 'apiVersion' is missing in 'object has no apiVersion field'`},
		"no version and another name": {"PATCH", all + "/a", "application/merge-patch+json",
			`{"apiVersion":null,"metadata":{"name":"b"}}`,
			400, `the name of the object (b) does not match the name on the URL (a)`},
		"no version of the status of another name": {"PATCH", all + "/a/status", "application/merge-patch+json",
			`{"apiVersion":null,"metadata":{"name":"b"}}`,
			400, `the name of the object (b) does not match the name on the URL (a)`},
		"a patched kind": {"PATCH", all + "/a", "application/merge-patch+json", `{"kind":"Other"}`,
			422, `Other.example.com \"a\" is invalid: kind: Invalid value: \"Other\": must be Widget`},
		"a patched version": {"PATCH", all + "/a", "application/merge-patch+json", `{"apiVersion":"example.com/v9"}`,
			422, `Widget.example.com \"a\" is invalid: apiVersion: Invalid value: \"example.com/v9\": must be example.com/v1`},
		"a negative scale": {"PUT", all + "/a/scale", "application/json", scale,
			422, `Widget.example.com \"a\" is invalid: .spec.replicas: Invalid value: -1: should be a non-negative integer`},
		"a strategic patch of the scale": {"PATCH", all + "/a/scale", "application/strategic-merge-patch+json",
			`{"spec":{"replicas":2}}`,
			415,
			`accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml`},
		"no such subresource": {"GET", all + "/a/nothing", "", "", 404, `widgets.example.com \"a\" not found`},
		"not in a namespace":  {"GET", "/apis/example.com/v1/widgets/a", "", "", 404, "404 page not found\n"},
		"keys of a list": {"GET", all + "?fieldSelector=metadata.name%3Dnone", "", "", 200,
			`{"apiVersion":"example.com/v1","items":[],"kind":"WidgetList","metadata":{"continue":"","resourceVersion":"`},
		"no such resource": {"GET", "/apis/example.com/v1/nothings", "", "", 404, "404 page not found\n"},
	} {
		if code, text := f.sent(t, c.method, c.path, c.media, c.body); code != c.code ||
			!strings.Contains(text, c.want) {
			t.Errorf("%s: %d %s, want %d %s", name, code, text, c.code, c.want)
		}
	}
}

// TestStatusOfAnotherVersion: of what is written to the status nothing but that is taken, and not what it says that it
// is of; its fields are those of that version, none for one that there isn't.
func TestStatusOfAnotherVersion(t *testing.T) {
	f := startCustom(t)
	f.create(t, "a", `spec: {color: red}`)
	const status = "/apis/example.com/v1/namespaces/default/widgets/a/status"
	for _, c := range []struct{ method, media, body, phase string }{
		{"PATCH", "application/merge-patch+json", `{"apiVersion":"example.com/v1beta1","status":{"phase":"one"}}`,
			"one"},
		{"PATCH", "application/json-patch+json", `[{"op":"replace","path":"/apiVersion","value":"example.com/v9"}]`,
			""},
		{"PATCH", "application/merge-patch+json", `{"kind":"Other","status":{"phase":"two"}}`, "two"},
		{"PATCH", "application/merge-patch+json", `{"kind":"Other","status":{"phase":"again","unknown":1}}`, "again"},
		{"PUT", "application/json",
			`{"apiVersion":"example.com/v1","kind":"Other","metadata":{"name":"a","resourceVersion":"RV"},"status":{"phase":"three","unknown":1}}`, "three"},
	} {
		now, err := f.dynamic.Resource(widgets).Namespace("default").Get(t.Context(), "a", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		code, text := f.sent(t, c.method, status, c.media, strings.Replace(c.body, "RV", now.GetResourceVersion(), 1))
		var got struct {
			APIVersion, Kind string
			Spec             struct{ Color string }
			Status           struct{ Phase string }
		}
		if err := json.Unmarshal([]byte(text), &got); err != nil || code != 200 || got.APIVersion != "example.com/v1" ||
			got.Kind != "Widget" || got.Spec.Color != "red" || got.Status.Phase != c.phase {
			t.Errorf("%s: %d %s", c.body, code, text)
		}
		if strings.Contains(text, "unknown") {
			t.Errorf("%s: what the schema doesn't know is there: %s", c.body, text)
		}
		if known := strings.Contains(c.body, "v1beta1"); known != strings.Contains(text, "managedFields") {
			t.Errorf("%s: managed: %s", c.body, text)
		}
	}
	code, text := f.sent(t, "PATCH", status, "application/merge-patch+json", `{"kind":"Other","status":{"phase":3}}`)
	if code != 422 || !strings.Contains(text, `"kind":"Other"`) {
		t.Errorf("what is wrong is told of another kind: %d %s", code, text)
	}
}

// TestDeprecationIsAlwaysToldOf, whatever is asked of a custom resource.
func TestDeprecationIsAlwaysToldOf(t *testing.T) {
	f := startCustom(t)
	const all = "/apis/example.com/v1beta1/namespaces/default/widgets"
	client, err := rest.HTTPClientFor(f.as("admin"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		method, path string
		code, told   int
	}{
		{"GET", all, 200, 1}, {"GET", all + "/none/nothing", 404, 1}, {"OPTIONS", all, 405, 1},
		{"GET", "/apis/example.com/v1beta1/widgets/a", 404, 0},
	} {
		request, err := http.NewRequestWithContext(t.Context(), c.method, f.as("admin").Host+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if told := response.Header["Warning"]; response.StatusCode != c.code || len(told) != c.told {
			t.Errorf("%s %s: %s, %q", c.method, c.path, response.Status, told)
		}
	}
}

// TestDefinitionStatusIsBooked: the server manages what it writes of a definition.
func TestDefinitionStatusIsBooked(t *testing.T) {
	f := startCustom(t)
	crd, err := f.definitions.ApiextensionsV1().CustomResourceDefinitions().Get(t.Context(), "widgets.example.com",
		metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(crd.ManagedFields,
		func(m metav1.ManagedFieldsEntry) bool { return m.Manager == "kube-apiserver" })
	if i < 0 {
		t.Fatalf("managed by %v", crd.ManagedFields)
	}
	m := crd.ManagedFields[i]
	if m.Subresource != "status" || m.Operation != metav1.ManagedFieldsOperationUpdate ||
		!strings.Contains(m.FieldsV1.GetRawString(), `"k:{\"type\":\"Established\"}"`) ||
		strings.Contains(m.FieldsV1.GetRawString(), "f:spec") {
		t.Errorf("booked as %+v", m)
	}
}

// TestDefinitionEnds: while a definition waits for its objects to go, its resource can be read and emptied, and not
// filled.
func TestDefinitionEnds(t *testing.T) {
	f := startCustom(t)
	f.create(t, "held", "metadata: {finalizers: [example.com/hold]}\nspec: {color: red}")
	definitions := f.definitions.ApiextensionsV1().CustomResourceDefinitions()
	if err := definitions.Delete(t.Context(), "widgets.example.com", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	crd, err := definitions.Get(t.Context(), "widgets.example.com", metav1.GetOptions{})
	if err != nil || crd.Generation != 1 || crd.DeletionTimestamp == nil || crd.DeletionGracePeriodSeconds != nil {
		t.Errorf("generation %d, %v, grace %v, %v", crd.Generation, crd.DeletionTimestamp,
			crd.DeletionGracePeriodSeconds, err)
	}
	client, err := discovery.NewDiscoveryClientForConfig(f.as("admin"))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "discovery tells of what can still be done", func() bool {
		list, err := client.ServerResourcesForGroupVersion("example.com/v1")
		return err == nil && slices.Equal(list.APIResources[0].Verbs,
			metav1.Verbs{"delete", "deletecollection", "get", "list", "watch"})
	})
	invalid := &unstructured.Unstructured{
		Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Widget",
			"metadata": map[string]any{"name": "x"}}}
	_, err = f.widgets().Create(t.Context(), invalid, metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) ||
		!strings.Contains(err.Error(), "create not allowed while custom resource definition is terminating") {
		t.Errorf("got %v", err)
	}
}

// TestDefinitionGoesWhateverThePolicy: the deletion of a definition asks nothing of the garbage collector, so that it
// goes without one.
func TestDefinitionGoesWhateverThePolicy(t *testing.T) {
	for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationForeground,
		metav1.DeletePropagationOrphan} {
		f := startCustom(t)
		definitions := f.definitions.ApiextensionsV1().CustomResourceDefinitions()
		if err := definitions.Delete(t.Context(), "widgets.example.com",
			metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the definition is gone", func() bool {
			_, err := definitions.Get(t.Context(), "widgets.example.com", metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		})
	}
}

// TestDefaultsOfWhatWasWritten: an object is answered as it will be read, also where a write made room for defaults.
func TestDefaultsOfWhatWasWritten(t *testing.T) {
	f := startCustom(t)
	props := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
		"spec": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"n": {Type: "integer"}, "d": {Type: "string", Default: &apiextensionsv1.JSON{Raw: []byte(`"dd"`)}},
		}},
		"status": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"n": {Type: "integer"}}},
	}}
	crd := widgetDefinition(t)
	crd.Name, crd.Spec.Names = "bits.example.com",
		apiextensionsv1.CustomResourceDefinitionNames{Plural: "bits", Kind: "Bit"}
	crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{
		Name: "v1", Served: true, Storage: true,
		Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &props},
		Subresources: &apiextensionsv1.CustomResourceSubresources{
			Scale: &apiextensionsv1.CustomResourceSubresourceScale{
				SpecReplicasPath: ".spec.n", StatusReplicasPath: ".status.n",
			}},
	}}
	if _, err := f.definitions.ApiextensionsV1().CustomResourceDefinitions().Create(t.Context(), crd,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	const all = "/apis/example.com/v1/namespaces/default/bits"
	eventually(t, "bits are served",
		func() bool { code, _ := f.sent(t, "GET", all, "", ""); return code == http.StatusOK })
	f.sent(t, "POST", all, "application/json", `{"apiVersion":"example.com/v1","kind":"Bit","metadata":{"name":"a"}}`)
	if code, text := f.sent(t, "PATCH", all+"/a/scale", "application/merge-patch+json",
		`{"spec":{"replicas":4}}`); code != http.StatusOK {
		t.Fatal(text)
	}
	if _, text := f.sent(t, "GET", all+"/a", "", ""); !strings.Contains(text, `"spec":{"d":"dd","n":4}`) {
		t.Errorf("got %s", text)
	}
}

// TestCustomResourceOpenAPI: clients of OpenAPI v2 are told of no defaults, those of v3 are.
func TestCustomResourceOpenAPI(t *testing.T) {
	f := startCustom(t)
	var v2 struct {
		Definitions map[string]json.RawMessage `json:"definitions"`
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for v2.Definitions["com.example.v1.Widget"] == nil && ctx.Err() == nil {
		_, text := f.sent(t, "GET", "/openapi/v2", "", "")
		if err := json.Unmarshal([]byte(text), &v2); err != nil {
			t.Fatal(err)
		}
	}
	if text := string(v2.Definitions["com.example.v1.Widget"]); !strings.Contains(text, `"replicas"`) ||
		strings.Contains(text, `"default"`) {
		t.Errorf("v2: %s", text)
	}
	if _, text := f.sent(t, "GET", "/openapi/v3/apis/example.com/v1", "", ""); !strings.Contains(text, `"default":1`) {
		t.Errorf("v3: %s", text)
	}
}

// TestCustomResourceOpenAPIKeepsApart: a custom resource whose schema would have the name of one of the program's gets
// another.
func TestCustomResourceOpenAPIKeepsApart(t *testing.T) {
	f := startDynamic(t)
	crd := widgetDefinition(t)
	crd.Name, crd.Spec.Group = "pods.core.api.k8s.io", "core.api.k8s.io"
	crd.Annotations = map[string]string{apiextensionsv1.KubeAPIApprovedAnnotation: "unapproved, a test"}
	crd.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Plural: "pods", Kind: "Pod"}
	f.define(t, crd)
	const model = "io.k8s.api.core.v1.Pod"
	var v2 struct {
		Definitions map[string]json.RawMessage `json:"definitions"`
		Paths       map[string]json.RawMessage `json:"paths"`
	}
	eventually(t, "the schema is there", func() bool {
		_, text := f.sent(t, "GET", "/openapi/v2", "", "")
		if err := json.Unmarshal([]byte(text), &v2); err != nil {
			t.Fatal(err)
		}
		return v2.Definitions[model+"_v2"] != nil
	})
	refersTo := func(text json.RawMessage, model string) bool {
		return strings.Contains(string(text), `"#/definitions/`+model+`"`)
	}
	if strings.Contains(string(v2.Definitions[model]), "replicas") ||
		!strings.Contains(string(v2.Definitions[model+"_v2"]), "replicas") {
		t.Errorf("got %s, %s", v2.Definitions[model], v2.Definitions[model+"_v2"])
	}
	if list := v2.Definitions[model+"List_v2"]; !refersTo(list, model+"_v2") || refersTo(list, model) {
		t.Errorf("list: %s", list)
	}
	for path, want := range map[string]string{"/api/v1/namespaces/{namespace}/pods": model,
		"/apis/core.api.k8s.io/v1/namespaces/{namespace}/pods": model + "_v2"} {
		if text := v2.Paths[path]; !refersTo(text, want) {
			t.Errorf("%s: %s", path, text)
		}
	}
}
