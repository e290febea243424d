package apiserver_test

import (
	"net/http"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// TestScaleOfWhatHasNoReplicas: a change of the Scale that doesn't say how many are wanted doesn't make it none.
func TestScaleOfWhatHasNoReplicas(t *testing.T) {
	f := startDynamic(t)
	crd := widgetDefinition(t)
	number := apiextensionsv1.JSONSchemaProps{Type: "object",
		Properties: map[string]apiextensionsv1.JSONSchemaProps{"replicas": {Type: "integer"}}}
	crd.Spec.Versions = crd.Spec.Versions[:1]
	crd.Spec.Versions[0].SelectableFields, crd.Spec.Versions[0].AdditionalPrinterColumns = nil, nil
	crd.Spec.Versions[0].Schema.OpenAPIV3Schema = &apiextensionsv1.JSONSchemaProps{
		Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": number, "status": number},
	}
	f.define(t, crd)
	f.create(t, "a", `spec: {}`)
	const a = "/apis/example.com/v1/namespaces/default/widgets/a"
	for _, c := range []struct {
		method, body string
		code         int
		want         string
	}{
		{"GET", "", http.StatusInternalServerError, `the spec replicas field \".spec.replicas\" does not exist`},
		{"PATCH", `{}`, http.StatusBadRequest, `the spec replicas field \".spec.replicas\" cannot be empty`},
		{"PATCH", `{"metadata":{"labels":{"a":"b"}}}`, http.StatusBadRequest,
			`the spec replicas field \".spec.replicas\" cannot be empty`},
		{"GET", "", http.StatusInternalServerError, "does not exist"},
		{"PATCH", `{"spec":{"replicas":0}}`, http.StatusOK, `"kind":"Scale"`},
		{"GET", "", http.StatusOK, `"kind":"Scale"`},
		{"PATCH", `{}`, http.StatusOK, `"kind":"Scale"`},
	} {
		if code, text := f.sent(t, c.method, a+"/scale", "application/merge-patch+json", c.body); code != c.code ||
			!strings.Contains(text, c.want) {
			t.Errorf("%s %s: %d %s", c.method, c.body, code, text)
		}
	}
	if _, text := f.sent(t, "GET", a, "", ""); !strings.Contains(text, `"spec":{"replicas":0}`) {
		t.Errorf("got %s", text)
	}
}

// TestKeysTwiceInAnAppliedScale are a fault, as in whatever else is applied.
func TestKeysTwiceInAnAppliedScale(t *testing.T) {
	f := start(t)
	const all = "/apis/apps/v1/namespaces/default/deployments"
	if code, text := f.sent(t, "POST", all, "application/yaml", `
apiVersion: apps/v1
kind: Deployment
metadata: {name: a}
spec:
  selector: {matchLabels: {a: b}}
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}
`); code != http.StatusCreated {
		t.Fatal(text)
	}
	const body = "apiVersion: autoscaling/v1\nkind: Scale\nmetadata: {name: a}\nspec:\n  replicas: 3\n  replicas: 2\n"
	for validation, want := range map[string]int{"Strict": http.StatusBadRequest, "Ignore": http.StatusOK} {
		path := all + "/a/scale?fieldManager=m&force=true&fieldValidation=" + validation
		if code, text := f.sent(t, "PATCH", path, "application/apply-patch+yaml", body); code != want ||
			want != http.StatusOK && !strings.Contains(text, "error strict decoding YAML") {
			t.Errorf("%s: %d %s", validation, code, text)
		}
	}
}
