package storage

import (
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	storagev1alpha1 "k8s.io/api/storage/v1alpha1"
	storagev1beta1 "k8s.io/api/storage/v1beta1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/checks"
	"quintet.dev/quintet/components/apiserver/kinds/show"
)

func volumeAttributesClasses() *api.Kind {
	return api.Define(api.Row[*storagev1.VolumeAttributesClass]{
		Name: "VolumeAttributesClass", Resource: "volumeattributesclasses", ShortNames: []string{"vac"}, Cluster: true,
		Hub: storagev1.SchemeGroupVersion,
		Others: []api.Version{api.TwinVersion[*storagev1beta1.VolumeAttributesClass, *storagev1.VolumeAttributesClass](
			storagev1beta1.SchemeGroupVersion, nil)},
		RemovedVersions: []api.Version{
			api.RemovedTwin[*storagev1alpha1.VolumeAttributesClass, *storagev1.VolumeAttributesClass](
				storagev1alpha1.SchemeGroupVersion, nil),
		},
		Strategy: api.Strategy[*storagev1.VolumeAttributesClass]{
			Validate:            api.OfObject(ValidateAttributes),
			ValidateAmong:       api.ChangeFirst(ValidateAttributesChange, api.IgnoreOld(ValidateAttributes)),
			ValidateName:        validation.NameIsDNSSubdomain,
			UnconditionalUpdate: true,
			ReturnDeleted:       true,
		},
		Columns: AttributesColumns(),
		Row:     AttributesRow,
	})
}

// AttributesColumns are the columns of volume attributes classes.
func AttributesColumns() show.Columns {
	return show.Name().String("DriverName", storagev1.VolumeAttributesClass{}.SwaggerDoc()["driverName"]).Age()
}

// AttributesRow are the cells of a volume attributes class.
func AttributesRow(c *storagev1.VolumeAttributesClass) []any {
	return []any{c.Name, c.DriverName, show.Age(c.CreationTimestamp)}
}

// ValidateAttributes checks a volume attributes class.
func ValidateAttributes(c *storagev1.VolumeAttributesClass) field.ErrorList {
	at := field.NewPath("driverName")
	errs := checks.Required(c.DriverName, at)
	if c.DriverName != "" {
		errs = checks.Text(strings.ToLower(c.DriverName), at, utilvalidation.IsQualifiedName)
	}
	return append(errs, parameters(c.Parameters, false, field.NewPath("parameters"))...)
}

// ValidateAttributesChange checks a change alone: the class stays.
func ValidateAttributesChange(new, old *storagev1.VolumeAttributesClass) field.ErrorList {
	var errs field.ErrorList
	if new.DriverName != old.DriverName {
		errs = append(errs, field.Forbidden(field.NewPath("driverName"), "updates to driverName are forbidden."))
	}
	if !apiequality.Semantic.DeepEqual(new.Parameters, old.Parameters) {
		errs = append(errs, field.Forbidden(field.NewPath("parameters"), "updates to parameters are forbidden."))
	}
	return errs
}
