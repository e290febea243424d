package apiextensions

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	definitions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

func customResourceDefinitions() *api.Kind {
	type CRD = *apiextensionsv1.CustomResourceDefinition
	return api.Define(api.Row[CRD]{
		Name: "CustomResourceDefinition", Resource: "customresourcedefinitions", ShortNames: []string{"crd", "crds"},
		Categories: []string{"api-extensions"}, Cluster: true,
		Prefix:  "apiextensions.k8s.io/customresourcedefinitions",
		Hub:     apiextensionsv1.SchemeGroupVersion,
		Default: Default, Check: Check,
		Others: []api.Version{storedDefinition()},
		Stored: apiextensionsv1beta1.SchemeGroupVersion, AsJSON: true, StatusNoTable: true,
		Strategy: api.Strategy[CRD]{
			Meta: api.MetaNothing, AnyFinalizer: true,
			PrepareCreate: PrepareCreate, PrepareUpdate: PrepareUpdate,
			Validate: api.OfObject(Validate), ValidateUpdate: api.OfChange(ValidateUpdate),
			Warnings:          api.OfChange(Warnings),
			HasSpecFinalizers: AwaitsTerminate, Terminate: Terminate, CollectedLater: true,
			StorePreconditions: true,
			Reset:              []string{"status"},
		},
		Status: &api.Strategy[CRD]{
			Meta: api.MetaNothing, AnyFinalizer: true,
			PrepareUpdate: PrepareStatusUpdate, ValidateUpdate: api.OfChange(ValidateStatusUpdate),
			Reset: []string{"spec"},
		},
	})
}

// storedDefinition is the version in which definitions lie in the store.
func storedDefinition() api.Version {
	type stored = *apiextensionsv1beta1.CustomResourceDefinition
	return api.Version{
		GroupVersion: apiextensionsv1beta1.SchemeGroupVersion, Unserved: true,
		New:     api.NewObject[stored],
		Default: func(obj api.Object) { apiextensionsv1beta1.SetObjectDefaults_CustomResourceDefinition(obj.(stored)) },
		ToHub:   func(obj api.Object) (api.Object, error) { return FromV1beta1(obj.(stored)) },
		FromHub: func(hub api.Object) (api.Object, error) {
			return ToV1beta1(hub.(*apiextensionsv1.CustomResourceDefinition))
		},
	}
}

type crd = *apiextensionsv1.CustomResourceDefinition

// Check tells of values in schemas that nothing can hold, numbers above all.
func Check(obj crd) error {
	_, err := reread(&obj.Spec)
	return err
}

// Default sets the defaults, and normalizes the values in schemas (defaults, examples, enumerations) to the form they
// have after decoding: keys sorted and unique, and numbers in their shortest form. A write that differs in nothing else
// changes nothing.
func Default(obj crd) {
	apiextensionsv1.SetObjectDefaults_CustomResourceDefinition(obj)
	if spec, err := reread(&obj.Spec); err == nil {
		obj.Spec = *spec
	}
}

// reread takes a spec to the library's form and back.
func reread(in *apiextensionsv1.CustomResourceDefinitionSpec) (*apiextensionsv1.CustomResourceDefinitionSpec, error) {
	middle, out := &apiextensions.CustomResourceDefinitionSpec{}, &apiextensionsv1.CustomResourceDefinitionSpec{}
	err := apiextensionsv1.Convert_v1_CustomResourceDefinitionSpec_To_apiextensions_CustomResourceDefinitionSpec(in,
		middle, nil)
	if err == nil {
		err = apiextensionsv1.Convert_apiextensions_CustomResourceDefinitionSpec_To_v1_CustomResourceDefinitionSpec(
			middle, out, nil)
	}
	return out.DeepCopy(), err // versions that are alike share a schema until here
}

// PrepareCreate starts the status: what will be stored first is of the storage version.
func PrepareCreate(_ context.Context, obj crd) {
	obj.Status = apiextensionsv1.CustomResourceDefinitionStatus{}
	obj.Generation = 1
	noteStored(obj)
}

// PrepareUpdate keeps the status, but for a new storage version.
func PrepareUpdate(_ context.Context, new, old crd) {
	old.Status.DeepCopyInto(&new.Status)
	if !apiequality.Semantic.DeepEqual(new.Spec, old.Spec) {
		new.Generation = old.Generation + 1
	}
	noteStored(new)
}

func noteStored(obj crd) {
	i := slices.IndexFunc(obj.Spec.Versions,
		func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Storage })
	if i < 0 {
		return
	}
	if name := obj.Spec.Versions[i].Name; !slices.Contains(obj.Status.StoredVersions, name) {
		obj.Status.StoredVersions = append(obj.Status.StoredVersions, name)
	}
}

// PrepareStatusUpdate keeps the spec; metadata may change, as upstream's may.
func PrepareStatusUpdate(_ context.Context, new, old crd) {
	new.Spec = old.Spec
}

// Validate checks a new definition.
func Validate(obj crd) field.ErrorList {
	in, errs := internal(obj)
	if in == nil {
		return errs
	}
	return definitions.ValidateCustomResourceDefinition(context.Background(), in)
}

// ValidateUpdate checks a change.
func ValidateUpdate(new, old crd) field.ErrorList {
	in, was, errs := internals(new, old)
	if errs != nil {
		return errs
	}
	return definitions.ValidateCustomResourceDefinitionUpdate(context.Background(), in, was)
}

// ValidateStatusUpdate checks a change of the status.
func ValidateStatusUpdate(new, old crd) field.ErrorList {
	in, was, errs := internals(new, old)
	if errs != nil {
		return errs
	}
	return definitions.ValidateUpdateCustomResourceDefinitionStatus(in, was)
}

func internals(new, old crd) (in, was *apiextensions.CustomResourceDefinition, errs field.ErrorList) {
	if in, errs = internal(new); errs == nil {
		was, errs = internal(old)
	}
	return in, was, errs
}

// internal makes the form that the library validates.
func internal(obj crd) (*apiextensions.CustomResourceDefinition, field.ErrorList) {
	out := &apiextensions.CustomResourceDefinition{}
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(
		obj.DeepCopy(), out, nil); err != nil {
		return nil, field.ErrorList{field.InternalError(field.NewPath("spec"), err)}
	}
	spec := &out.Spec
	if spec.Validation != nil && spec.Validation.OpenAPIV3Schema == nil {
		spec.Validation = nil // in which the library would look for fields, and panic
	}
	disarm(spec.Validation, &spec.SelectableFields)
	for i := range spec.Versions {
		disarm(spec.Versions[i].Schema, &spec.Versions[i].SelectableFields)
	}
	return out, nil
}

// disarm takes away what the library looks for in a schema that isn't structural: it would panic, and tells of such a
// schema all the same.
func disarm(v *apiextensions.CustomResourceValidation, fields *[]apiextensions.SelectableField) {
	if v == nil || v.OpenAPIV3Schema == nil {
		return
	}
	if _, err := structural.NewStructural(v.OpenAPIV3Schema); err != nil {
		*fields = slices.DeleteFunc(*fields, leadsIntoSchema)
	}
}

// leadsIntoSchema tells whether the path of a field has to be resolved to be checked.
func leadsIntoSchema(f apiextensions.SelectableField) bool {
	const noField = "does not refer to a valid field"
	_, _, err := cel.ValidFieldPath(f.JSONPath, &structural.Structural{}, cel.WithFieldPathAllowArrayNotation(false))
	return err != nil && err.Error() == noField
}

// Warnings name formats that nothing checks; on an update, those that are new.
func Warnings(new, old crd) []string {
	var had, out []string
	if old != nil {
		had = unknownFormats(old)
	}
	for _, format := range unknownFormats(new) {
		if !slices.Contains(had, format) {
			out = append(out, fmt.Sprintf("unrecognized format %q", format))
		}
	}
	return out
}

func unknownFormats(obj crd) []string {
	in, _ := internal(obj)
	if in == nil {
		return nil
	}
	var out []string
	collect := func(s *apiextensions.JSONSchemaProps) bool {
		if s.Format != "" {
			shape := &spec.Schema{SchemaProps: spec.SchemaProps{Format: s.Format, Type: []string{s.Type}}}
			out = append(out, validation.GetUnrecognizedFormats(shape, environment.DefaultCompatibilityVersion())...)
		}
		return false
	}
	definitions.HasSchemaWith(&in.Spec,
		func(s *apiextensions.JSONSchemaProps) bool { return definitions.SchemaHas(s, collect) })
	return out
}

// AwaitsTerminate makes a deletion wait until Terminate has put its finalizer on.
func AwaitsTerminate(obj crd) bool {
	return apihelpers.FindCRDCondition(obj, apiextensionsv1.Terminating) == nil
}

// Terminate begins the deletion: the objects that are defined go first.
func Terminate(obj crd) {
	if !apihelpers.CRDHasFinalizer(obj, apiextensionsv1.CustomResourceCleanupFinalizer) {
		obj.Finalizers = append(obj.Finalizers, apiextensionsv1.CustomResourceCleanupFinalizer)
	}
	apihelpers.SetCRDCondition(obj, apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.Terminating, Status: apiextensionsv1.ConditionTrue, Reason: "InstanceDeletionPending",
		Message: "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
	})
}
