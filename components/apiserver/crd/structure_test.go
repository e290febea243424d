package crd

import (
	"encoding/json"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// stored is a definition as an old release may have left it.
func stored(t *testing.T, keepAll bool, schema string) *definition {
	crd := fuzzedDefinition(nil)
	crd.Spec.PreserveUnknownFields = keepAll
	crd.Spec.Versions[0].Schema = nil
	if schema != "" {
		props := &apiextensionsv1.JSONSchemaProps{}
		if err := json.Unmarshal([]byte(schema), props); err != nil {
			t.Fatal(err)
		}
		crd.Spec.Versions[0].Schema = &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: props}
	}
	return crd
}

func TestDefinitionsOfOldReleases(t *testing.T) {
	const path = "spec.versions[0].schema.openAPIV3Schema"
	for name, c := range map[string]struct {
		crd             *definition
		reason, message string
		told            bool
	}{
		"of today": {stored(t, false, `{"type":"object"}`), "", "", true},
		"no schema": {stored(t, true, ""), "Violations",
			"spec.preserveUnknownFields: Invalid value: true: must be false", false},
		"structural": {stored(t, true, `{"type":"object"}`), "Violations",
			"spec.preserveUnknownFields: Invalid value: true: must be false", true},
		"no type": {
			stored(t, true, `{"properties":{"a":{"type":"string"}}}`), "Violations",
			"[spec.preserveUnknownFields: Invalid value: true: must be false, " + path +
				".type: Required value: must not be empty at the root]", false,
		},
		"no such field": {stored(t, true, `{"type":"object","id":"x"}`), "StructuralError",
			"failed to check validation schema for version v1: ", false},
	} {
		structured(c.crd, violations(c.crd))
		got := apihelpers.FindCRDCondition(c.crd, apiextensionsv1.NonStructuralSchema)
		switch {
		case c.reason == "" && got == nil:
		case got == nil, got.Reason != c.reason, got.Message[:min(len(got.Message), len(c.message))] != c.message:
			t.Errorf("%s: %v", name, got)
		}
		r, err := newResource(c.crd, c.crd.Spec.Names, nil, nil)
		if err != nil {
			t.Errorf("%s can't be served: %v", name, err)
			continue
		}
		properties := r.versions["v1"].schemas(openAPIV3)["com.example.v1.Thing"].Properties
		if _, tells := properties["kind"]; tells != c.told {
			t.Errorf("%s: OpenAPI tells of %v", name, properties)
		}
		exercise(t, r, map[string]any{"a": int64(1), "b": []any{nil}})
	}
	mended := stored(t, true, "")
	structured(mended, violations(mended))
	mended.Spec.PreserveUnknownFields = false
	if structured(mended, violations(mended)); len(mended.Status.Conditions) != 0 {
		t.Errorf("mended: %v", mended.Status.Conditions)
	}
}
