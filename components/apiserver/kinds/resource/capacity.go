package resource

import (
	"fmt"
	"strconv"

	resourcev1 "k8s.io/api/resource/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxValidValues bounds the amounts among which a request may choose.
const maxValidValues = 10

// validateCapacity checks how much of a device there is, and how it may be shared out.
func validateCapacity(c *resourcev1.DeviceCapacity, at *field.Path, shared bool) field.ErrorList {
	p, path := c.RequestPolicy, at.Child("requestPolicy")
	switch {
	case p == nil:
		return nil
	case !shared:
		return field.ErrorList{field.Forbidden(path, "allowMultipleAllocations must be true")}
	case len(p.ValidValues) > 0 && p.ValidRange != nil:
		return field.ErrorList{field.Forbidden(path,
			`exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time`)}
	case p.ValidRange != nil:
		return validateRange(p.Default, c.Value, p.ValidRange, path)
	case len(p.ValidValues) > 0:
		return validateValues(p.Default, c.Value, p.ValidValues, path)
	}
	return nil
}

func validateValues(fallback *quantity.Quantity, most quantity.Quantity, values []quantity.Quantity,
	path *field.Path) field.ErrorList {
	at := path.Child("validValues")
	if fallback == nil {
		return field.ErrorList{field.Required(path.Child("default"), "required when validValues is defined")}
	}
	errs := ascending(values, at)
	found := false
	amount := func(v quantity.Quantity) string { return strconv.FormatInt(v.Value(), 10) }
	errs = append(errs, distinct(values, maxValidValues, at, amount,
		func(v quantity.Quantity, at *field.Path) field.ErrorList {
			found = found || v.Cmp(*fallback) == 0
			if v.Cmp(most) > 0 {
				return field.ErrorList{field.Invalid(at, v.String(),
					"option is larger than capacity value: "+most.String())}
			}
			return nil
		})...)
	if !found {
		errs = append(errs, field.Invalid(at, fallback.String(),
			"default value is not valid according to the requestPolicy"))
	}
	return errs
}

func ascending(values []quantity.Quantity, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := 1; i < len(values); i++ {
		if values[i].Cmp(values[i-1]) < 0 {
			errs = append(errs, field.Invalid(at.Index(i), values[i].String(),
				"values must be sorted in ascending order"))
		}
	}
	return errs
}

func validateRange(fallback *quantity.Quantity, most quantity.Quantity, r *resourcev1.CapacityRequestPolicyRange,
	path *field.Path) field.ErrorList {
	at := path.Child("validRange")
	var errs field.ErrorList
	if fallback == nil {
		return field.ErrorList{field.Required(path.Child("default"), "required when validRange is defined")}
	}
	if r.Min == nil {
		return field.ErrorList{field.Required(at.Child("min"), "required when validRange is defined")}
	}
	refuse := func(name string, v *quantity.Quantity, format string, args ...any) {
		errs = append(errs, field.Invalid(at.Child(name), v.String(), fmt.Sprintf(format, args...)))
	}
	if r.Min.Cmp(most) > 0 {
		refuse("min", r.Min, "min is larger than capacity value: %s", most.String())
	}
	if fallback.Cmp(*r.Min) < 0 {
		refuse("min", fallback, "default is less than min: %s", r.Min.String())
	}
	if r.Max != nil && r.Min.Cmp(*r.Max) > 0 {
		refuse("max", r.Min, "min is larger than max: %s", r.Max.String())
	}
	if r.Max != nil && r.Max.Cmp(most) > 0 {
		refuse("max", r.Max, "max is larger than capacity value: %s", most.String())
	}
	if r.Max != nil && fallback.Cmp(*r.Max) > 0 {
		refuse("max", fallback, "default is more than max: %s", r.Max.String())
	}
	if r.Step != nil {
		errs = append(errs, validateStep(fallback, most, r, at.Child("step"))...)
	}
	return errs
}

// validateStep checks that the bounds and the fallback lie on the steps that start at the minimum.
func validateStep(fallback *quantity.Quantity, most quantity.Quantity, r *resourcev1.CapacityRequestPolicyRange,
	at *field.Path) field.ErrorList {
	if r.Step.IsZero() {
		return field.ErrorList{field.Invalid(at, r.Step.String(), "must not be zero")}
	}
	var errs field.ErrorList
	first := r.Min.DeepCopy()
	first.Add(*r.Step)
	if first.Cmp(most) > 0 {
		errs = append(errs, field.Invalid(at, r.Step.String(),
			fmt.Sprintf("one step %s is larger than capacity value: %s", first.String(), most.String())))
	}
	for _, v := range []*quantity.Quantity{fallback, r.Max} {
		if v != nil && (v.Value()-r.Min.Value())%r.Step.Value() != 0 {
			errs = append(errs, field.Invalid(at, v.String(),
				fmt.Sprintf("value is not a multiple of a given step (%s) from (%s)", r.Step.String(), r.Min.String())))
		}
	}
	return errs
}
