package apiserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	extensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"quintet.dev/quintet/components/apiserver/options"
)

const widgetSchema = `
type: object
properties:
  spec:
    type: object
    required: [color]
    x-kubernetes-validations:
    - {rule: "self.replicas <= 10", message: "too many replicas"}
    - {rule: "self.color == oldSelf.color", message: "color is immutable"}
    properties:
      color: {type: string, maxLength: 9}
      replicas: {type: integer, default: 1}
      port: {x-kubernetes-int-or-string: true}
      free: {type: object, x-kubernetes-preserve-unknown-fields: true}
      parts:
        type: array
        x-kubernetes-list-type: map
        x-kubernetes-list-map-keys: [name]
        items: {type: object, required: [name], properties: {name: {type: string}, size: {type: integer, default: 3}}}
  status:
    type: object
    properties: {replicas: {type: integer}, selector: {type: string}, phase: {type: string}}
`

var widgets = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}

func widgetDefinition(t *testing.T) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	props := &apiextensionsv1.JSONSchemaProps{}
	if err := yaml.Unmarshal([]byte(widgetSchema), props); err != nil {
		t.Fatal(err)
	}
	selector := ".status.selector"
	v1 := apiextensionsv1.CustomResourceDefinitionVersion{
		Name: "v1", Served: true, Storage: true,
		Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: props},
		Subresources: &apiextensionsv1.CustomResourceSubresources{
			Status: &apiextensionsv1.CustomResourceSubresourceStatus{},
			Scale: &apiextensionsv1.CustomResourceSubresourceScale{
				SpecReplicasPath: ".spec.replicas", StatusReplicasPath: ".status.replicas",
				LabelSelectorPath: &selector,
			},
		},
		AdditionalPrinterColumns: []apiextensionsv1.CustomResourceColumnDefinition{
			{Name: "Color", Type: "string", JSONPath: ".spec.color"}},
		SelectableFields: []apiextensionsv1.SelectableField{{JSONPath: ".spec.color"}},
	}
	old := *v1.DeepCopy()
	old.Name, old.Storage, old.Deprecated = "v1beta1", false, true
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Kind: "Widget",
				ShortNames: []string{"wd"}},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{v1, old},
		},
	}
}

// customFixture is a server with clients for custom resources.
type customFixture struct {
	*fixture
	definitions extensions.Interface
	dynamic     dynamic.Interface
}

func startDynamic(t *testing.T, change ...func(*options.Config)) *customFixture {
	t.Helper()
	f := &customFixture{fixture: start(t, change...)}
	f.definitions = extensions.NewForConfigOrDie(f.as("admin"))
	f.dynamic = dynamic.NewForConfigOrDie(f.as("admin"))
	return f
}

// startCustom starts a server that serves widgets.
func startCustom(t *testing.T) *customFixture {
	t.Helper()
	f := startDynamic(t)
	f.define(t, widgetDefinition(t))
	return f
}

// define creates a definition and waits until it is served.
func (f *customFixture) define(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	if _, err := f.definitions.ApiextensionsV1().CustomResourceDefinitions().Create(t.Context(), crd,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.until(t, crd.Name, func(crd *apiextensionsv1.CustomResourceDefinition, err error) bool {
		return err == nil && statusOf(crd, apiextensionsv1.Established) == apiextensionsv1.ConditionTrue
	})
}

func (f *customFixture) until(t *testing.T, name string,
	done func(*apiextensionsv1.CustomResourceDefinition, error) bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, time.Minute, true,
		func(ctx context.Context) (bool, error) {
			return done(f.definitions.ApiextensionsV1().CustomResourceDefinitions().Get(ctx, name,
					metav1.GetOptions{})),
				nil
		})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

func statusOf(crd *apiextensionsv1.CustomResourceDefinition,
	of apiextensionsv1.CustomResourceDefinitionConditionType) apiextensionsv1.ConditionStatus {
	for _, c := range crd.Status.Conditions {
		if c.Type == of {
			return c.Status
		}
	}
	return ""
}

func (f *customFixture) widgets() dynamic.ResourceInterface {
	return f.dynamic.Resource(widgets).Namespace("default")
}

func (f *customFixture) create(t *testing.T, name, spec string) *unstructured.Unstructured {
	t.Helper()
	out, err := f.widgets().Create(t.Context(), widget(t, name, spec), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func widget(t *testing.T, name, spec string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{
		Object: map[string]any{"spec": map[string]any{}, "status": map[string]any{"phase": "Invented"}}}
	if err := yaml.Unmarshal([]byte(spec), &u.Object); err != nil {
		t.Fatal(err)
	}
	u.SetAPIVersion("example.com/v1")
	u.SetKind("Widget")
	u.SetName(name)
	return u
}

func TestCustomResourceIsDefaultedPrunedAndVersioned(t *testing.T) {
	f := startCustom(t)
	got := f.create(t, "a", `spec: {color: red, port: http, free: {a: {b: 1}}, parts: [{name: p}], unknown: 1}`)
	want := map[string]any{
		"color": "red", "port": "http", "replicas": int64(1),
		"free":  map[string]any{"a": map[string]any{"b": int64(1)}},
		"parts": []any{map[string]any{"name": "p", "size": int64(3)}},
	}
	if a, b := asJSON(t, got.Object["spec"]), asJSON(t, want); a != b {
		t.Errorf("spec is %s, want %s", a, b)
	}
	if got.Object["status"] != nil || got.GetGeneration() != 1 {
		t.Errorf("status %v, generation %d", got.Object["status"], got.GetGeneration())
	}
	beta := widgets
	beta.Version = "v1beta1"
	older, err := f.dynamic.Resource(beta).Namespace("default").Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil || older.GetAPIVersion() != "example.com/v1beta1" ||
		asJSON(t, older.Object["spec"]) != asJSON(t, want) {
		t.Errorf("as v1beta1: %v, %v", older, err)
	}
}

func TestCustomResourceIsValidated(t *testing.T) {
	f := startCustom(t)
	f.create(t, "a", `spec: {color: red}`)
	for _, c := range []struct{ name, spec, want string }{
		{"types", `spec: {color: 1}`,
			`spec.color: Invalid value: "integer": spec.color in body must be of type string: "integer"`},
		{"required", `spec: {}`, `spec.color: Required value`},
		{"rules", `spec: {color: red, replicas: 11}`, `spec: Invalid value: too many replicas`},
		{"lists", `spec: {color: red, parts: [{name: p}, {name: p}]}`, `spec.parts[1]: Duplicate value: {"name":"p"}`},
	} {
		_, err := f.widgets().Create(t.Context(), widget(t, c.name, c.spec), metav1.CreateOptions{})
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
	_, err := f.widgets().Create(t.Context(), widget(t, "strict", `spec: {color: red, zap: 1, free: {x: 1}}`),
		metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	if !apierrors.IsBadRequest(err) ||
		!strings.Contains(err.Error(), `strict decoding error: unknown field "spec.zap"`) {
		t.Errorf("strict: %v", err)
	}
	_, err = f.widgets().Patch(t.Context(), "a", types.MergePatchType, []byte(`{"spec":{"color":"blue"}}`),
		metav1.PatchOptions{})
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "color is immutable") {
		t.Errorf("transition rule: %v", err)
	}
	_, err = f.widgets().Patch(t.Context(), "a", types.StrategicMergePatchType, []byte(`{}`), metav1.PatchOptions{})
	if !apierrors.IsUnsupportedMediaType(err) {
		t.Errorf("strategic merge patch: %v", err)
	}
}

func TestCustomResourceSubresources(t *testing.T) {
	f := startCustom(t)
	a := f.create(t, "a", `spec: {color: red}`)
	a.Object["status"] = map[string]any{"phase": "Ready", "replicas": int64(1), "selector": "x=y"}
	a.Object["spec"] = map[string]any{"color": "blue"}
	a, err := f.widgets().UpdateStatus(t.Context(), a, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if color, _, _ := unstructured.NestedString(a.Object, "spec", "color"); color != "red" || a.GetGeneration() != 1 {
		t.Errorf("a status update changed the color to %s, the generation to %d", color, a.GetGeneration())
	}
	scale, err := f.widgets().Patch(t.Context(), "a", types.MergePatchType, []byte(`{"spec":{"replicas":4}}`),
		metav1.PatchOptions{}, "scale")
	if err != nil || scale.GetKind() != "Scale" ||
		asJSON(t, scale.Object["status"]) != `{"replicas":1,"selector":"x=y"}` {
		t.Errorf("scale %v, %v", scale, err)
	}
	a, err = f.widgets().Get(t.Context(), "a", metav1.GetOptions{})
	if n, _, _ := unstructured.NestedInt64(a.Object, "spec", "replicas"); err != nil || n != 4 ||
		a.GetGeneration() != 2 {
		t.Errorf("scaled to %d, generation %d, %v", n, a.GetGeneration(), err)
	}
}

// Numbers of an applied object are integers, as those of other requests are: the scale subresource asks for them.
func TestCustomResourceApplyOfReplicas(t *testing.T) {
	f := startCustom(t)
	for _, replicas := range []int64{2, 3} { // one creates, one changes
		patch := fmt.Sprintf(
			`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"color":"red","replicas":%d}}`,
			replicas,
		)
		a, err := f.widgets().Patch(t.Context(), "a", types.ApplyPatchType, []byte(patch),
			metav1.PatchOptions{FieldManager: "m"})
		if err != nil {
			t.Fatal(err)
		}
		if n, _, err := unstructured.NestedInt64(a.Object, "spec", "replicas"); err != nil || n != replicas {
			t.Errorf("%d replicas, %v; want %d", n, err, replicas)
		}
	}
}

// Numbers that were written as 4.0 lie in the store as 4, and are what was read from there for whatever comes after.
func TestCustomResourceWholeNumbers(t *testing.T) {
	f := startCustom(t)
	f.create(t, "a", `spec: {color: red}`)
	for _, patch := range []string{`{"spec":{"parts":[{"name":"x","size":4.0}]}}`,
		`{"metadata":{"labels":{"x":"y"}}}`} {
		a, err := f.widgets().Patch(t.Context(), "a", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		if err != nil {
			t.Fatal(patch, err)
		}
		if n := a.GetGeneration(); n != 2 {
			t.Errorf("%s: generation %d", patch, n)
		}
	}
}

func TestCustomResourceApply(t *testing.T) {
	f := startCustom(t)
	apply := func(manager, spec string) error {
		u := widget(t, "a", spec)
		delete(u.Object, "status")
		_, err := f.widgets().Apply(t.Context(), "a", u, metav1.ApplyOptions{FieldManager: manager})
		return err
	}
	if err := apply("one", `spec: {color: red, parts: [{name: p}]}`); err != nil {
		t.Fatal(err)
	}
	if err := apply("two", `spec: {color: red, parts: [{name: q, size: 4}]}`); err != nil {
		t.Fatal(err)
	}
	if err := apply("two", `spec: {color: green}`); !apierrors.IsConflict(err) ||
		!strings.Contains(err.Error(), `conflict with "one"`) {
		t.Errorf("applying what another manager owns: %v", err)
	}
	a, err := f.widgets().Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	parts, _, _ := unstructured.NestedSlice(a.Object, "spec", "parts")
	if got := asJSON(t, parts); got != `[{"name":"p","size":3},{"name":"q","size":4}]` {
		t.Errorf("parts are %s", got)
	}
}

func TestCustomResourceSelectWatchAndColumns(t *testing.T) {
	f := startCustom(t)
	f.create(t, "a", `spec: {color: red}`)
	w, err := f.widgets().Watch(t.Context(), metav1.ListOptions{FieldSelector: "spec.color=blue"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	f.create(t, "b", `spec: {color: red}`)
	f.create(t, "c", `spec: {color: blue}`)
	if e := <-w.ResultChan(); e.Object.(*unstructured.Unstructured).GetName() != "c" {
		t.Errorf("watched %v", e)
	}
	list, err := f.widgets().List(t.Context(), metav1.ListOptions{FieldSelector: "spec.color=red"})
	if err != nil || len(list.Items) != 2 || list.GetKind() != "WidgetList" {
		t.Errorf("listed %v, %v", list, err)
	}
	raw, err := f.client(t).CoreV1().RESTClient().Get().AbsPath("/apis/example.com/v1/widgets").
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(t.Context())
	table := &metav1.Table{}
	if err == nil {
		err = json.Unmarshal(raw, table)
	}
	if err != nil || len(table.ColumnDefinitions) != 2 || len(table.Rows) != 3 ||
		asJSON(t, table.Rows[2].Cells) != `["c","blue"]` {
		t.Errorf("table %s, %v", raw, err)
	}
}

func TestDefinitionsComeAndGo(t *testing.T) {
	f := startCustom(t)
	client := f.client(t)
	resources, err := client.Discovery().ServerResourcesForGroupVersion("example.com/v1")
	if err != nil || len(resources.APIResources) != 3 || resources.APIResources[0].ShortNames[0] != "wd" {
		t.Errorf("discovery: %v, %v", resources, err)
	}
	for _, path := range []string{"/openapi/v3/apis/example.com/v1", "/openapi/v2"} {
		text, err := client.Discovery().RESTClient().Get().AbsPath(path).SetHeader("Accept",
			"application/json").DoRaw(t.Context())
		if err != nil || !strings.Contains(string(text), `"com.example.v1.Widget":`) {
			t.Errorf("%s: %v", path, err)
		}
	}
	rival := widgetDefinition(t)
	rival.Name, rival.Spec.Names = "gadgets.example.com",
		apiextensionsv1.CustomResourceDefinitionNames{Plural: "gadgets", Kind: "Widget"}
	definitions := f.definitions.ApiextensionsV1().CustomResourceDefinitions()
	if _, err := definitions.Create(t.Context(), rival, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.until(t, rival.Name, func(crd *apiextensionsv1.CustomResourceDefinition, err error) bool {
		return statusOf(crd, apiextensionsv1.NamesAccepted) == apiextensionsv1.ConditionFalse &&
			statusOf(crd, apiextensionsv1.Established) == apiextensionsv1.ConditionFalse
	})
	held := widget(t, "held", `spec: {color: red}`)
	held.SetFinalizers([]string{"example.com/hold"})
	if _, err := f.widgets().Create(t.Context(), held, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := definitions.Delete(t.Context(), "widgets.example.com", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.until(t, "widgets.example.com", func(crd *apiextensionsv1.CustomResourceDefinition, err error) bool {
		c := apihelpers.FindCRDCondition(crd, apiextensionsv1.Terminating)
		return err == nil && c != nil && c.Reason == "InstanceDeletionInProgress"
	})
	if _, err := f.widgets().Create(t.Context(), widget(t, "late", `spec: {color: red}`),
		metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("creating while the definition goes: %v", err)
	}
	if _, err := f.widgets().Patch(t.Context(), "held", types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	f.until(t, "widgets.example.com",
		func(_ *apiextensionsv1.CustomResourceDefinition, err error) bool { return apierrors.IsNotFound(err) })
	// The name that the other definition wanted is free now.
	f.until(t, rival.Name, func(crd *apiextensionsv1.CustomResourceDefinition, err error) bool {
		return statusOf(crd, apiextensionsv1.Established) == apiextensionsv1.ConditionTrue
	})
	if _, err := f.widgets().List(t.Context(), metav1.ListOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("listing what is no longer defined: %v", err)
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
