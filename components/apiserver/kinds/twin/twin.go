// Package twin looks at values of Go types as values of others that are laid out in the same way: versions of an API
// differ most often in nothing but the names of their types. Nothing is copied. Each use for two types needs a test
// that they are Alike.
package twin

import (
	"reflect"
	"unsafe"
)

// Of is the value behind p, as one of another type that is alike.
func Of[To, From any](p *From) *To { return (*To)(unsafe.Pointer(p)) }

// List is a list, as one of items that are alike.
func List[To, From any](list []From) []To { return *Of[[]To](&list) }

// Alike tells whether values of two types are laid out in the same way, and mean the same: fields have the same names,
// in the same order, down to what is no struct.
func Alike(a, b reflect.Type) bool { return alike(a, b, map[[2]reflect.Type]bool{}) }

func alike(a, b reflect.Type, seen map[[2]reflect.Type]bool) bool {
	pair := [2]reflect.Type{a, b}
	if a == b || seen[pair] {
		return true
	}
	seen[pair] = true
	if a.Kind() != b.Kind() || a.Size() != b.Size() {
		return false
	}
	switch a.Kind() {
	case reflect.Pointer, reflect.Slice:
		return alike(a.Elem(), b.Elem(), seen)
	case reflect.Array:
		return a.Len() == b.Len() && alike(a.Elem(), b.Elem(), seen)
	case reflect.Map:
		return alike(a.Key(), b.Key(), seen) && alike(a.Elem(), b.Elem(), seen)
	case reflect.Struct:
		if a.NumField() != b.NumField() {
			return false
		}
		for i := range a.NumField() {
			if x, y := a.Field(i), b.Field(i); x.Name != y.Name || x.Offset != y.Offset ||
				!alike(x.Type, y.Type, seen) {
				return false
			}
		}
		return true
	case reflect.Interface, reflect.Func, reflect.Chan:
		return false
	}
	return true
}
