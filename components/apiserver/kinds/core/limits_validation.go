package core

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/podspec"
)

// ValidateLimitRange checks bounds: each kind of object once, and minimum ≤ default request ≤ default ≤ maximum.
func ValidateLimitRange(l *corev1.LimitRange) field.ErrorList {
	var errs field.ErrorList
	seen := sets.New[corev1.LimitType]()
	for i := range l.Spec.Limits {
		item, at := &l.Spec.Limits[i], field.NewPath("spec", "limits").Index(i)
		errs = append(errs, limitTypeName(item.Type, at.Child("type"))...)
		if seen.Has(item.Type) {
			errs = append(errs, field.Duplicate(at.Child("type"), item.Type))
		}
		seen.Insert(item.Type)
		errs = append(errs, validateLimits(item, at)...)
	}
	return errs
}

func limitTypeName(name corev1.LimitType, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range utilvalidation.IsQualifiedName(string(name)) {
		errs = append(errs, field.Invalid(at, name, msg))
	}
	if len(errs) == 0 && !strings.Contains(string(name), "/") {
		switch name {
		case corev1.LimitTypePod, corev1.LimitTypeContainer, corev1.LimitTypePersistentVolumeClaim:
		default:
			errs = append(errs, field.Invalid(at, name, "must be a standard limit type or fully qualified"))
		}
	}
	return errs
}

func validateLimits(item *corev1.LimitRangeItem, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	names := sets.New[corev1.ResourceName]()
	check := func(name string, list corev1.ResourceList) {
		for _, n := range slices.Sorted(maps.Keys(list)) {
			p := at.Child(name).Key(string(n))
			if item.Type == corev1.LimitTypePod || item.Type == corev1.LimitTypeContainer {
				errs = append(errs, podspec.ContainerResource(n, p)...)
			} else {
				errs = append(errs, podspec.QualifiedResource(n, p)...)
			}
			names.Insert(n)
		}
	}
	bounds := *item
	check("max", item.Max)
	check("min", item.Min)
	if item.Type == corev1.LimitTypePod {
		if len(item.Default) > 0 {
			errs = append(errs, field.Forbidden(at.Child("default"), "may not be specified when `type` is 'Pod'"))
		}
		if len(item.DefaultRequest) > 0 {
			errs = append(errs, field.Forbidden(at.Child("defaultRequest"),
				"may not be specified when `type` is 'Pod'"))
		}
		bounds.Default, bounds.DefaultRequest = nil, nil
	} else {
		check("default", item.Default)
		check("defaultRequest", item.DefaultRequest)
	}
	if item.Type == corev1.LimitTypePersistentVolumeClaim {
		_, min := item.Min[corev1.ResourceStorage]
		_, max := item.Max[corev1.ResourceStorage]
		if !min && !max {
			errs = append(errs, field.Required(at.Child("limits"),
				"either minimum or maximum storage value is required, but neither was provided"))
		}
	}
	check("maxLimitRequestRatio", item.MaxLimitRequestRatio)
	for _, n := range sets.List(names) {
		errs = append(errs, validateBounds(&bounds, n, at)...)
		errs = append(errs, validateRatio(&bounds, n, at.Child("maxLimitRequestRatio").Key(string(n)))...)
		if a, b := item.Default[n], bounds.DefaultRequest[n]; has(bounds.Default, n) && has(bounds.DefaultRequest, n) &&
			!podspec.Overcommit(n) && a.Cmp(b) != 0 {
			errs = append(errs, field.Invalid(at.Child("defaultRequest").Key(string(n)), b.String(),
				fmt.Sprintf("default value %s must equal to defaultRequest value %s in %s", a.String(), b.String(), n)))
		}
	}
	return errs
}

func has(list corev1.ResourceList, n corev1.ResourceName) bool {
	_, ok := list[n]
	return ok
}

// validateBounds checks that the bounds of a resource ascend. Which of two values is shown is upstream's choice.
func validateBounds(item *corev1.LimitRangeItem, n corev1.ResourceName, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	ascend := func(low, high corev1.ResourceList, name string, shown corev1.ResourceList, lowLabel, highLabel string) {
		a, hasLow := low[n]
		b, hasHigh := high[n]
		if hasLow && hasHigh && a.Cmp(b) > 0 {
			value := shown[n]
			errs = append(errs, field.Invalid(at.Child(name).Key(string(n)), value.String(),
				fmt.Sprintf("%s value %s is greater than %s value %s", lowLabel, a.String(), highLabel, b.String())))
		}
	}
	ascend(item.Min, item.Max, "min", item.Min, "min", "max")
	ascend(item.Min, item.DefaultRequest, "defaultRequest", item.DefaultRequest, "min", "default request")
	ascend(item.DefaultRequest, item.Max, "defaultRequest", item.DefaultRequest, "default request", "max")
	ascend(item.DefaultRequest, item.Default, "defaultRequest", item.DefaultRequest, "default request", "default limit")
	ascend(item.Min, item.Default, "default", item.Min, "min", "default")
	ascend(item.Default, item.Max, "default", item.Max, "default", "max")
	return errs
}

// validateRatio checks that the greatest ratio of limit to request is one, and can be reached.
func validateRatio(item *corev1.LimitRangeItem, n corev1.ResourceName, at *field.Path) field.ErrorList {
	ratio, ok := item.MaxLimitRequestRatio[n]
	if !ok {
		return nil
	}
	var errs field.ErrorList
	if ratio.Cmp(*resource.NewQuantity(1, resource.DecimalSI)) < 0 {
		errs = append(errs, field.Invalid(at, ratio.String(), fmt.Sprintf("ratio %s is less than 1", ratio.String())))
	}
	min, hasMin := item.Min[n]
	max, hasMax := item.Max[n]
	if !hasMin || !hasMax {
		return errs
	}
	asked, low, high := float64(ratio.Value()), min.Value(), max.Value()
	if ratio.Value() < resource.MaxMilliValue && low < resource.MaxMilliValue && high < resource.MaxMilliValue {
		asked, low, high = float64(ratio.MilliValue())/1000, min.MilliValue(), max.MilliValue()
	}
	// Of whole numbers, as fractions would be off by the last bit: 300m is three times 100m.
	if most := float64(high) / float64(low); asked > most {
		errs = append(errs, field.Invalid(at, ratio.String(),
			fmt.Sprintf("ratio %s is greater than max/min = %f", ratio.String(), most)))
	}
	return errs
}
