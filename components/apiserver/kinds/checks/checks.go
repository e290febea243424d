// Package checks are validations that several API groups share.
package checks

import (
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Count is a number that must not be negative; Max, if not nil, is another that it must not exceed.
type Count struct {
	Name    string
	Value   int32
	Max     *int32
	MaxName string
}

// Counts checks the numbers of a status.
func Counts(path *field.Path, list ...Count) field.ErrorList {
	var errs field.ErrorList
	for _, c := range list {
		errs = append(errs, validation.ValidateNonnegativeField(int64(c.Value), path.Child(c.Name))...)
	}
	for _, c := range list {
		if c.Max != nil && c.Value > *c.Max {
			errs = append(errs, field.Invalid(path.Child(c.Name), c.Value, "cannot be greater than "+c.MaxName))
		}
	}
	return errs
}

// NonNegative checks a number.
func NonNegative(value int64, path *field.Path) field.ErrorList {
	return validation.ValidateNonnegativeField(value, path)
}

// Collisions checks a counter of hash collisions: it never goes back.
func Collisions(new, old *int32, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if new != nil {
		errs = append(errs, validation.ValidateNonnegativeField(int64(*new), path)...)
	}
	if old != nil {
		value := int32(0)
		if new != nil {
			value = *new
		}
		if value < *old {
			errs = append(errs, field.Invalid(path, value, "cannot be decremented"))
		}
	}
	return errs
}

// Selector checks the selector of a workload, which must not be empty; kind is named in the error. The selector returned
// is nil when it can't be used, and matches nothing when there is none.
func Selector(s *metav1.LabelSelector, kind string, path *field.Path) (labels.Selector, field.ErrorList) {
	if s == nil {
		return labels.Nothing(), field.ErrorList{field.Required(path, "")}
	}
	errs := metavalidation.ValidateLabelSelector(s, metavalidation.LabelSelectorValidationOptions{}, path)
	if len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		errs = append(errs, field.Invalid(path, s, "empty selector is invalid for "+kind))
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return nil, append(errs, field.Invalid(path, s, "invalid label selector"))
	}
	return selector, errs
}

// IntOrPercent checks a number or percentage that must not be negative.
func IntOrPercent(v intstr.IntOrString, path *field.Path) field.ErrorList {
	if v.Type == intstr.Int {
		return validation.ValidateNonnegativeField(int64(v.IntValue()), path)
	}
	if len(utilvalidation.IsValidPercent(v.StrVal)) != 0 {
		return field.ErrorList{field.Invalid(path, v, "must be an integer or percentage (e.g '5%%')")}
	}
	return nil
}

// AtMostAll checks that a percentage isn't more than the whole.
func AtMostAll(v intstr.IntOrString, path *field.Path) field.ErrorList {
	if n, ok := Percent(v); ok && n > 100 {
		return field.ErrorList{field.Invalid(path, v, "must not be greater than 100%")}
	}
	return nil
}

// Percent returns the number of a percentage.
func Percent(v intstr.IntOrString) (int, bool) {
	if v.Type != intstr.String || len(utilvalidation.IsValidPercent(v.StrVal)) != 0 {
		return 0, false
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(&v, 100, false)
	return n, err == nil
}

// IsZero reports whether a number or percentage is nothing.
func IsZero(v *intstr.IntOrString) bool {
	if v == nil {
		return true
	}
	n, percent := Percent(*v)
	return percent && n == 0 || v.Type == intstr.Int && v.IntVal == 0
}

// OneOf checks a value that must be set and one of a few.
func OneOf[T ~string](value T, path *field.Path, known ...T) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	set := sets.New(known...)
	if !set.Has(value) {
		return field.ErrorList{field.NotSupported(path, value, sets.List(set))}
	}
	return nil
}

// Required checks that a text is there.
func Required(value string, path *field.Path) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	return nil
}

// Text turns what a check of a text found into errors.
func Text(value string, path *field.Path, check func(string) []string) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range check(value) {
		errs = append(errs, field.Invalid(path, value, msg))
	}
	return errs
}

// Subdomain checks the name of an object of most kinds.
func Subdomain(name string) []string { return validation.NameIsDNSSubdomain(name, false) }
