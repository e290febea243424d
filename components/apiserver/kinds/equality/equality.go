// Package equality compares objects as the API does, and is quick where they are the same, as most parts of most
// changed objects are.
package equality

import (
	"bytes"
	"maps"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Semantic tells whether two values mean the same: nil and empty do.
func Semantic[T any](a, b T) bool {
	return Identical(reflect.ValueOf(&a).Elem(), reflect.ValueOf(&b).Elem()) || apiequality.Semantic.DeepEqual(a, b)
}

// Same tells whether two values are the same, to the last difference between nil and empty.
func Same[T any](a, b *T) bool {
	return Identical(reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem())
}

// Identical tells whether two values of one type are the same, to the last difference between nil and empty. It may say
// no of values that mean the same.
func Identical(a, b reflect.Value) bool {
	switch a.Kind() {
	case reflect.Pointer:
		if a.Pointer() == b.Pointer() {
			return true
		}
		return !a.IsNil() && !b.IsNil() && Identical(a.Elem(), b.Elem())
	case reflect.Struct:
		return equalStructs(a, b)
	case reflect.Slice:
		if a.Len() != b.Len() || a.IsNil() != b.IsNil() {
			return false
		}
		if a.UnsafePointer() == b.UnsafePointer() {
			return true
		}
		if a.Type().Elem().Kind() == reflect.Uint8 {
			return bytes.Equal(a.Bytes(), b.Bytes())
		}
		for i := range a.Len() {
			if !Identical(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	case reflect.Map:
		return equalMaps(a, b)
	case reflect.String:
		return a.String() == b.String()
	case reflect.Bool:
		return a.Bool() == b.Bool()
	}
	if a.CanInt() {
		return a.Int() == b.Int()
	}
	if a.CanUint() {
		return a.Uint() == b.Uint()
	}
	return reflect.DeepEqual(a.Interface(), b.Interface())
}

func equalStructs(a, b reflect.Value) bool {
	switch a.Type() {
	case quantity:
		return sameQuantity(*inside[resource.Quantity](a), *inside[resource.Quantity](b))
	case moment:
		return *inside[time.Time](a) == *inside[time.Time](b)
	}
	for i := range a.NumField() {
		x := a.Field(i)
		if !x.CanInterface() { // it is not exported
			return reflect.DeepEqual(a.Interface(), b.Interface())
		}
		if !Identical(x, b.Field(i)) {
			return false
		}
	}
	return true
}

// sameQuantity takes no notice of whether they remember how they are written.
func sameQuantity(x, y resource.Quantity) bool { return x.Format == y.Format && x.Cmp(y) == 0 }

var (
	texts    = reflect.TypeFor[map[string]string]()
	amounts  = reflect.TypeFor[corev1.ResourceList]()
	quantity = reflect.TypeFor[resource.Quantity]()
	moment   = reflect.TypeFor[time.Time]()
)

// inside is what a value holds, without a copy where there is a place for it.
func inside[T any](v reflect.Value) *T {
	if v.CanAddr() {
		return v.Addr().Interface().(*T)
	}
	held := v.Interface().(T)
	return &held
}

func equalMaps(a, b reflect.Value) bool {
	if a.Len() != b.Len() || a.IsNil() != b.IsNil() {
		return false
	}
	if a.UnsafePointer() == b.UnsafePointer() {
		return true
	}
	switch a.Type() { // what most maps are needn't be taken out by reflection, which copies it
	case texts:
		return maps.Equal(a.Interface().(map[string]string), b.Interface().(map[string]string))
	case amounts:
		return maps.EqualFunc(a.Interface().(corev1.ResourceList), b.Interface().(corev1.ResourceList), sameQuantity)
	}
	for each := a.MapRange(); each.Next(); {
		other := b.MapIndex(each.Key())
		if !other.IsValid() || !Identical(each.Value(), other) {
			return false
		}
	}
	return true
}
