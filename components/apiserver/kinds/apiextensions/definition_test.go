package apiextensions

import (
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestSchemasThatAreNone: what can't be looked at for selectable fields is refused, and nothing worse.
func TestSchemasThatAreNone(t *testing.T) {
	for name, c := range map[string]struct {
		schema *apiextensionsv1.CustomResourceValidation
		want   string
	}{
		"none":           {nil, "spec.versions[0].schema.openAPIV3Schema: Required value"},
		"empty":          {&apiextensionsv1.CustomResourceValidation{}, "spec.versions[0].schema.openAPIV3Schema: Required value"},
		"not structural": {&apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{ID: "x", Type: "object"}}, "id"},
	} {
		obj := &apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: "as.example.com"},
			Spec: apiextensionsv1.CustomResourceDefinitionSpec{
				Group: "example.com", Scope: apiextensionsv1.ClusterScoped,
				Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "as", Kind: "A"},
				Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
					Name: "v1", Served: true, Storage: true, Schema: c.schema,
					SelectableFields: []apiextensionsv1.SelectableField{{JSONPath: ".a"}},
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
