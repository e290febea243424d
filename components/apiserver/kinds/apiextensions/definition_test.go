package apiextensions

import (
	"encoding/json"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestSchemasThatAreNone: what can't be looked at for selectable fields is refused, and nothing worse.
func TestSchemasThatAreNone(t *testing.T) {
	notStructural := &apiextensionsv1.CustomResourceValidation{
		OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{ID: "x", Type: "object"}}
	for name, c := range map[string]struct {
		schema *apiextensionsv1.CustomResourceValidation
		path   string
		want   string
	}{
		"none": {nil, ".a", "spec.versions[0].schema.openAPIV3Schema: Required value"},
		"empty": {&apiextensionsv1.CustomResourceValidation{}, ".a",
			"spec.versions[0].schema.openAPIV3Schema: Required value"},
		"not structural": {notStructural, ".a", "id"},
		"and no path": {notStructural, "a",
			`spec.selectableFields[0].jsonPath: Invalid value: "a": is an invalid path: expected [ or . but got: a`},
		"which is told": {notStructural, "a", `spec.schema.openAPIV3Schema: Invalid value: ""`},
	} {
		obj := &apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: "as.example.com"},
			Spec: apiextensionsv1.CustomResourceDefinitionSpec{
				Group: "example.com", Scope: apiextensionsv1.ClusterScoped,
				Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "as", Kind: "A"},
				Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
					Name: "v1", Served: true, Storage: true, Schema: c.schema,
					SelectableFields: []apiextensionsv1.SelectableField{{JSONPath: c.path}},
				}},
			},
		}
		apiextensionsv1.SetObjectDefaults_CustomResourceDefinition(obj)
		PrepareCreate(t.Context(), obj)
		if errs := Validate(obj); !strings.Contains(errs.ToAggregate().Error(), c.want) {
			t.Errorf("%s: got %v", name, errs)
		}
	}
}

// TestEmptySchemasAreTold: what is shown of the versions tells one without a schema from one with an empty one.
func TestEmptySchemasAreTold(t *testing.T) {
	obj := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "as.example.com"}}
	obj.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{
		{Name: "v1", Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{}}, {Name: "v2", Storage: true},
	}
	text := Validate(obj).ToAggregate().Error()
	for _, want := range []string{`"Schema":{"OpenAPIV3Schema":null}`, `"Schema":null`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
}

// withDefault is a definition of which all versions have a property with this default.
func withDefault(raw string, versions ...string) *apiextensionsv1.CustomResourceDefinition {
	obj := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "as.example.com"}}
	for _, name := range versions {
		obj.Spec.Versions = append(obj.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{
			Name: name, Storage: name == versions[0],
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
				Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
					"x": {Default: &apiextensionsv1.JSON{Raw: []byte(raw)}}},
			}},
		})
	}
	return obj
}

// TestValuesOfSchemas: a value is written in one way however it came, so that one that says the same is no change.
func TestValuesOfSchemas(t *testing.T) {
	for raw, want := range map[string]string{
		`{"b":1.0, "a":"\u003cx\u003e","c":1e3,"d":null}`: `{"a":"\u003cx\u003e","b":1,"c":1000,"d":null}`,
		`1.50`:          `1.5`,
		`{"a":1,"a":2}`: `{"a":2}`,
		`"\u00e9"`:      `"é"`,
		`[]`:            `[]`,
	} {
		old := withDefault(want, "v1", "v2")
		Default(old)
		PrepareCreate(t.Context(), old)
		obj := withDefault(raw, "v1", "v2")
		Default(obj)
		obj.Generation = old.Generation
		PrepareUpdate(t.Context(), obj, old)
		if got := string(obj.Spec.Versions[1].Schema.OpenAPIV3Schema.Properties["x"].Default.Raw); got != want ||
			obj.Generation != 1 {
			t.Errorf("%s: %s, generation %d", raw, got, obj.Generation)
		}
		if obj.Spec.Versions[0].Schema == obj.Spec.Versions[1].Schema {
			t.Error("versions share a schema")
		}
	}
}

// TestValuesThatAreNone: what no number can hold makes the definition unreadable.
func TestValuesThatAreNone(t *testing.T) {
	const want = "json: cannot unmarshal number 1e999 into Go value of type float64"
	if err := Check(withDefault("1e999", "v1")); err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
	if err := Check(withDefault("1e9", "v1")); err != nil {
		t.Error(err)
	}
}

// TestWebhooksThatAreNone: a conversion webhook of which nothing is said is none, as upstream reads and takes
// definitions.
func TestWebhooksThatAreNone(t *testing.T) {
	for text, want := range map[string]bool{
		`{"strategy":"None","webhook":{}}`:                                      false,
		`{"strategy":"None","webhook":{"conversionReviewVersions":null}}`:       false,
		`{"strategy":"None","webhook":{"conversionReviewVersions":["v1"]}}`:     true,
		`{"strategy":"Webhook","webhook":{"clientConfig":{"url":"https://x"}}}`: true,
	} {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := json.Unmarshal([]byte(`{"spec":{"conversion":`+text+`}}`), crd); err != nil {
			t.Fatal(err)
		}
		Default(crd)
		if got := crd.Spec.Conversion.Webhook != nil; got != want {
			t.Errorf("%s: there is one: %v", text, got)
		}
	}
}
