package apps

import (
	"encoding/json"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
)

// ValidateRevision checks a controller revision: its data is one JSON object.
func ValidateRevision(r *appsv1.ControllerRevision) field.ErrorList {
	errs := checks.NonNegative(r.Revision, field.NewPath("revision"))
	data := field.NewPath("data")
	if len(r.Data.Raw) == 0 {
		return append(errs, field.Required(data, "data is mandatory"))
	}
	var content any
	if err := json.Unmarshal(r.Data.Raw, &content); err != nil {
		return append(errs, field.Invalid(data, "<value omitted>", "error parsing data: "+err.Error()))
	}
	if content == nil {
		return append(errs, field.Required(data, "data is mandatory"))
	}
	if _, ok := content.(map[string]any); !ok {
		errs = append(errs, field.Required(data, "data must be a valid JSON object"))
	}
	return errs
}

// ValidateRevisionUpdate checks a change: the data stays.
func ValidateRevisionUpdate(new, old *appsv1.ControllerRevision) field.ErrorList {
	errs := checks.NonNegative(new.Revision, field.NewPath("revision"))
	return append(errs, validation.ValidateImmutableField(new.Data, old.Data, field.NewPath("data"))...)
}
