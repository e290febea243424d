package crd

import (
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// structured sets the condition NonStructuralSchema from the violations found. Such a definition can no longer be
// written; those that old releases have stored are still served
// (https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#specifying-a-structural-schema).
func structured(crd *definition, c *condition) {
	if c == nil {
		apihelpers.RemoveCRDCondition(crd, apiextensionsv1.NonStructuralSchema)
		return
	}
	apihelpers.SetCRDCondition(crd, *c)
}

// violations is the condition of a definition that isn't structural; nil if it is.
func violations(crd *definition) *condition {
	spec := field.NewPath("spec")
	var errs field.ErrorList
	if crd.Spec.PreserveUnknownFields {
		errs = append(errs, field.Invalid(spec.Child("preserveUnknownFields"), true, "must be false"))
	}
	for i := range crd.Spec.Versions {
		v := &crd.Spec.Versions[i]
		props, err := schemaOf(v)
		if err != nil || props == nil {
			continue
		}
		s, err := structural.NewStructural(props)
		if err != nil {
			return &condition{
				Type: apiextensionsv1.NonStructuralSchema, Status: apiextensionsv1.ConditionUnknown,
				Reason:  "StructuralError",
				Message: fmt.Sprintf("failed to check validation schema for version %s: %v", v.Name, err),
			}
		}
		errs = append(errs, structural.ValidateStructural(
			spec.Child("versions").Index(i).Child("schema", "openAPIV3Schema"), s)...)
	}
	if len(errs) == 0 {
		return nil
	}
	return &condition{
		Type: apiextensionsv1.NonStructuralSchema, Status: apiextensionsv1.ConditionTrue, Reason: "Violations",
		Message: errs.ToAggregate().Error(),
	}
}

// schemaOf is the schema of a version in the form in which the libraries read it; nil if there is none.
func schemaOf(v *apiextensionsv1.CustomResourceDefinitionVersion) (*apiextensions.JSONSchemaProps, error) {
	if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
		return nil, nil
	}
	out := &apiextensions.CustomResourceValidation{}
	if err := apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(
		v.Schema.DeepCopy(), out, nil); err != nil {
		return nil, err
	}
	return out.OpenAPIV3Schema, nil
}
