package crd

import (
	"context"
	"fmt"
	"math"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// validate checks a new object against the schema of the version in which it came. Faults of its metadata are told
// here, as some of them keep rules from being checked.
func (r *resource) validate(ctx context.Context, obj api.Object) field.ErrorList {
	v := r.at(ctx)
	u := obj.(*unstructured.Unstructured)
	checks, err := v.checks()
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	errs := v.validateType(u)
	if len(errs) == 0 {
		errs = apivalidation.ValidateObjectMetaAccessor(u, r.kind.Namespaced, apivalidation.NameIsDNSSubdomain,
			field.NewPath("metadata"))
		errs = append(errs, validation.ValidateCustomResource(nil, u.Object, checks.whole)...)
		errs = append(errs, v.validateScale(u)...)
	}
	errs = append(errs, objectmeta.Validate(nil, u.Object, v.schema, false)...)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, v.schema, u.Object)...)
	return v.obeyRules(ctx, errs, u, nil)
}

// validateUpdate checks a change. What was wrong before and didn't change may stay so
// (https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#validation-ratcheting).
func (r *resource) validateUpdate(ctx context.Context, obj, old api.Object, meta api.MetaErrors) field.ErrorList {
	v := r.at(ctx)
	u, before := obj.(*unstructured.Unstructured), old.(*unstructured.Unstructured)
	checks, err := v.checks()
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	both := common.NewCorrelatedObject(u.Object, before.Object, &model.Structural{Structural: v.schema})
	defer func() { validation.Metrics.ObserveRatchetingTime(*both.Duration) }()
	errs := v.validateType(u)
	if len(errs) == 0 {
		errs = append(meta.Change,
			validation.ValidateCustomResourceUpdate(nil, u.Object, before.Object, checks.whole,
				validation.WithRatcheting(both))...)
		errs = append(errs, v.validateScale(u)...)
	}
	errs = append(errs, objectmeta.Validate(nil, u.Object, v.schema, false)...)
	errs = append(errs, v.validateLists(u, before)...)
	return v.obeyRules(ctx, errs, u, before, cel.WithRatcheting(both))
}

// validateStatus checks a change of the status.
func (r *resource) validateStatus(ctx context.Context, obj, old api.Object, meta api.MetaErrors) field.ErrorList {
	v := r.at(ctx)
	u, before := obj.(*unstructured.Unstructured), old.(*unstructured.Unstructured)
	checks, err := v.checks()
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	both := common.NewCorrelatedObject(u.Object, before.Object, &model.Structural{Structural: v.schema})
	defer func() { validation.Metrics.ObserveRatchetingTime(*both.Duration) }()
	errs := meta.Change
	if status, ok := u.Object["status"]; ok {
		var options []validation.ValidationOption
		if v.schema != nil {
			options = append(options, validation.WithRatcheting(both.Key("status")))
		}
		errs = append(errs, validation.ValidateCustomResourceUpdate(field.NewPath("status"), status,
			before.Object["status"], checks.status, options...)...)
	}
	if scale := v.scaleSpec(); scale != nil {
		errs = append(errs, validateReplicas(u, scale.StatusReplicasPath)...)
		errs = append(errs, validateSelector(u, scale.LabelSelectorPath)...)
	}
	errs = append(errs, v.validateLists(u, before)...)
	return v.obeyRules(ctx, errs, u, before, cel.WithRatcheting(both))
}

// validateType checks of which kind and version an object says that it is. If of another, it isn't measured by the
// schema, only by what the schema says of lists, of objects in objects, and by rules.
func (v *version) validateType(u *unstructured.Unstructured) (errs field.ErrorList) {
	if kind := u.GetKind(); kind != v.gvk.Kind {
		errs = append(errs, field.Invalid(field.NewPath("kind"), kind, "must be "+v.gvk.Kind))
	}
	if version, want := u.GetAPIVersion(), v.gvk.GroupVersion().String(); version != want {
		errs = append(errs, field.Invalid(field.NewPath("apiVersion"), version, "must be "+want))
	}
	return errs
}

// validateLists checks lists that are sets or maps, if they were so before.
func (v *version) validateLists(u, before *unstructured.Unstructured) field.ErrorList {
	errs := listtype.ValidateListSetsAndMaps(nil, v.schema, u.Object)
	if len(errs) > 0 && len(listtype.ValidateListSetsAndMaps(nil, v.schema, before.Object)) > 0 {
		return nil
	}
	return errs
}

// obeyRules appends what the schema's CEL rules have against the object. before is nil for a new one.
func (v *version) obeyRules(ctx context.Context, errs field.ErrorList, u, before *unstructured.Unstructured,
	options ...cel.Option) field.ErrorList {
	rules := v.rules()
	if rules == nil {
		return errs
	}
	for _, err := range errs {
		switch err.Type {
		case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany,
			field.ErrorTypeTypeInvalid:
			return append(errs, field.Invalid(nil, nil,
				"some validation rules were not checked because the object was invalid; correct the existing errors to complete "+
					"validation"))
		}
	}
	var old any
	if before != nil {
		old = before.Object
	}
	broken, _ := rules.Validate(ctx, nil, v.schema, u.Object, old, celconfig.RuntimeCELCostBudget, options...)
	return append(errs, broken...)
}

// validateScale checks the fields that the scale subresource shows.
func (v *version) validateScale(u *unstructured.Unstructured) field.ErrorList {
	scale := v.scaleSpec()
	if scale == nil {
		return nil
	}
	errs := validateReplicas(u, scale.SpecReplicasPath)
	errs = append(errs, validateReplicas(u, scale.StatusReplicasPath)...)
	return append(errs, validateSelector(u, scale.LabelSelectorPath)...)
}

func validateReplicas(u *unstructured.Unstructured, path string) field.ErrorList {
	n, _, err := unstructured.NestedInt64(u.Object, steps(path)...)
	problem := ""
	switch {
	case err != nil:
		problem = err.Error()
	case n < 0:
		problem = "should be a non-negative integer"
	case n > math.MaxInt32:
		problem = fmt.Sprintf("should be less than or equal to %v", math.MaxInt32)
	default:
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath(path), n, problem)}
}

func validateSelector(u *unstructured.Unstructured, path *string) field.ErrorList {
	if path == nil {
		return nil
	}
	selector, _, err := unstructured.NestedString(u.Object, steps(*path)...)
	if err != nil {
		return field.ErrorList{field.Invalid(field.NewPath(*path), selector, err.Error())}
	}
	return nil
}
