// Package checks are validations that several API groups share.
package checks

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Count is a number of a status that must not be negative.
type Count struct {
	Name  string
	Value int32
}

// Counts checks the numbers of a status.
func Counts(path *field.Path, list ...Count) field.ErrorList {
	var errs field.ErrorList
	for _, c := range list {
		errs = append(errs, NonNegative(int64(c.Value), path.Child(c.Name))...)
	}
	return errs
}

// Limit is a number of a status that must not exceed another.
type Limit struct {
	Name    string
	Value   int32
	Max     int32
	MaxName string
}

// Limits checks how the numbers of a status relate.
func Limits(path *field.Path, list ...Limit) field.ErrorList {
	var errs field.ErrorList
	for _, l := range list {
		if l.Value > l.Max {
			errs = append(errs, field.Invalid(path.Child(l.Name), l.Value, "cannot be greater than "+l.MaxName))
		}
	}
	return errs
}

// NonNegative checks a number.
func NonNegative(value int64, path *field.Path) field.ErrorList {
	return validation.ValidateNonnegativeField(value, path)
}

// OptionalCount checks a number that may be missing.
func OptionalCount(value *int32, path *field.Path) field.ErrorList {
	if value == nil {
		return nil
	}
	return NonNegative(int64(*value), path)
}

// Collisions checks a change of a counter of hash collisions: it never goes back.
func Collisions(new, old *int32, path *field.Path) field.ErrorList {
	if old == nil {
		return nil
	}
	value := int32(0)
	if new != nil {
		value = *new
	}
	if value < *old {
		return field.ErrorList{field.Invalid(path, value, "cannot be decremented")}
	}
	return nil
}

// IntOrPercent checks a number or percentage that must not be negative.
func IntOrPercent(v intstr.IntOrString, path *field.Path) field.ErrorList {
	if v.Type == intstr.Int {
		return validation.ValidateNonnegativeField(int64(v.IntValue()), path)
	}
	var errs field.ErrorList
	for _, msg := range utilvalidation.IsValidPercent(v.StrVal) {
		errs = append(errs, field.Invalid(path, v, msg))
	}
	return errs
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
func IsZero(v *intstr.IntOrString) bool { return amount(v) == 0 }

// IsSome is the opposite of IsZero.
func IsSome(v *intstr.IntOrString) bool { return amount(v) != 0 }

// amount is the number of a number or percentage. Text that should be a percentage is the number that it reads as, or
// else nothing.
func amount(v *intstr.IntOrString) int {
	if v == nil {
		return 0
	}
	if n, ok := Percent(*v); ok {
		return n
	}
	return v.IntValue()
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

// In checks a value that must be one of a few, which are told in the order given.
func In[T ~string](value T, path *field.Path, known ...T) field.ErrorList {
	if slices.Contains(known, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, value, known)}
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
