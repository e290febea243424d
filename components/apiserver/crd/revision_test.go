package crd

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestRevision changes with what is told of a version, and with nothing else.
func TestRevision(t *testing.T) {
	revision := func(change func(*apiextensionsv1.CustomResourceDefinition)) string {
		crd := &apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: "widgets.example.com", UID: "a", Generation: 1},
			Spec: apiextensionsv1.CustomResourceDefinitionSpec{
				Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
				Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget",
					Kind: "Widget", ListKind: "WidgetList"},
				Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
					Name: "v1", Served: true, Storage: true,
					Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
						Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
							"size": {Type: "integer", Description: "How large."}},
					}},
				}},
			},
		}
		change(crd)
		r, err := newResource(crd, crd.Spec.Names, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return r.kind.Custom.Revision("v1")
	}
	first := revision(func(*apiextensionsv1.CustomResourceDefinition) {})
	for name, c := range map[string]struct {
		same   bool
		change func(*apiextensionsv1.CustomResourceDefinition)
	}{
		"the definition is made again": {true,
			func(crd *apiextensionsv1.CustomResourceDefinition) { crd.UID, crd.Generation = "b", 7 }},
		"a column": {true, func(crd *apiextensionsv1.CustomResourceDefinition) {
			crd.Spec.Versions[0].AdditionalPrinterColumns = []apiextensionsv1.CustomResourceColumnDefinition{
				{Name: "Size", Type: "integer", JSONPath: ".size"}}
		}},
		"a description": {false, func(crd *apiextensionsv1.CustomResourceDefinition) {
			crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["size"] = apiextensionsv1.JSONSchemaProps{
				Type: "integer", Description: "How long."}
		}},
		"a field that can be selected": {false, func(crd *apiextensionsv1.CustomResourceDefinition) {
			crd.Spec.Versions[0].SelectableFields = []apiextensionsv1.SelectableField{{JSONPath: ".size"}}
		}},
	} {
		if got := revision(c.change); (got == first) != c.same {
			t.Errorf("%s: %s, was %s", name, got, first)
		}
	}
}
