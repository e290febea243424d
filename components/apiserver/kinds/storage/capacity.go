package storage

import (
	storagev1 "k8s.io/api/storage/v1"
	storagev1alpha1 "k8s.io/api/storage/v1alpha1"
	storagev1beta1 "k8s.io/api/storage/v1beta1"
	"k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/checks"
	"quintet.dev/quintet/components/apiserver/kinds/podspec"
)

func csiStorageCapacities() *api.Kind {
	return api.Define(api.Row[*storagev1.CSIStorageCapacity]{
		Name: "CSIStorageCapacity", Resource: "csistoragecapacities",
		Hub: storagev1.SchemeGroupVersion,
		RemovedVersions: []api.Version{
			api.RemovedTwin[*storagev1beta1.CSIStorageCapacity, *storagev1.CSIStorageCapacity](
				storagev1beta1.SchemeGroupVersion, nil),
			api.RemovedTwin[*storagev1alpha1.CSIStorageCapacity, *storagev1.CSIStorageCapacity](
				storagev1alpha1.SchemeGroupVersion, nil),
		},
		Strategy: api.Strategy[*storagev1.CSIStorageCapacity]{
			Validate:      api.OfObject(ValidateCapacity),
			ValidateAmong: api.WholeFirst(ValidateCapacityUpdate, ValidateCapacityChange),
			Warnings:      api.OfChange(CapacityWarnings),
			ValidateName:  validation.NameIsDNSSubdomain,
		},
	})
}

// ValidateCapacity checks a storage capacity.
func ValidateCapacity(c *storagev1.CSIStorageCapacity) field.ErrorList {
	return validateCapacity(c, metavalidation.LabelSelectorValidationOptions{})
}

// ValidateCapacityUpdate checks a changed storage capacity; values in its topology may stay bad.
func ValidateCapacityUpdate(new, old *storagev1.CSIStorageCapacity) field.ErrorList {
	var options metavalidation.LabelSelectorValidationOptions
	options.AllowInvalidLabelValueInSelector = len(
		metavalidation.ValidateLabelSelector(old.NodeTopology, options, nil)) > 0
	return validateCapacity(new, options)
}

func validateCapacity(c *storagev1.CSIStorageCapacity,
	options metavalidation.LabelSelectorValidationOptions) field.ErrorList {
	errs := metavalidation.ValidateLabelSelector(c.NodeTopology, options, field.NewPath("nodeTopology"))
	errs = append(errs, checks.Text(c.StorageClassName, field.NewPath("storageClassName"), checks.Subdomain)...)
	if c.Capacity != nil && c.Capacity.Sign() < 0 {
		errs = append(errs, field.Invalid(field.NewPath("capacity"), c.Capacity.String(),
			"must be greater than or equal to 0"))
	}
	return errs
}

// ValidateCapacityChange checks a change alone: what the capacity is of stays.
func ValidateCapacityChange(new, old *storagev1.CSIStorageCapacity) field.ErrorList {
	errs := validation.ValidateImmutableField(new.NodeTopology, old.NodeTopology, field.NewPath("nodeTopology"))
	return append(errs, validation.ValidateImmutableField(new.StorageClassName, old.StorageClassName,
		field.NewPath("storageClassName"))...)
}

// CapacityWarnings tell of the same.
func CapacityWarnings(new, _ *storagev1.CSIStorageCapacity) []string {
	return podspec.NodeLabelsWarnings(new.NodeTopology, field.NewPath("nodeTopology"))
}
