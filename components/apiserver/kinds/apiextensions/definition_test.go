package apiextensions

import (
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestSchemasThatAreNone: what can't be looked at for selectable fields is refused, and nothing worse.
func TestSchemasThatAreNone(t *testing.T) {
	notStructural := &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{ID: "x", Type: "object"}}
	for name, c := range map[string]struct {
		schema *apiextensionsv1.CustomResourceValidation
		path   string
		want   string
	}{
		"none":           {nil, ".a", "spec.versions[0].schema.openAPIV3Schema: Required value"},
		"empty":          {&apiextensionsv1.CustomResourceValidation{}, ".a", "spec.versions[0].schema.openAPIV3Schema: Required value"},
		"not structural": {notStructural, ".a", "id"},
		"and no path":    {notStructural, "a", `spec.selectableFields[0].jsonPath: Invalid value: "a": is an invalid path: expected [ or . but got: a`},
		"which is told":  {notStructural, "a", `spec.schema.openAPIV3Schema: Invalid value: ""`},
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
