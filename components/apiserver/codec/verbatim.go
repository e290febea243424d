package codec

import (
	"encoding/json"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// IsVerbatim tells whether something in objects of a Go type, a struct, is kept as a client has written it.
func IsVerbatim(goType reflect.Type) bool { return isVerbatim(goType, map[reflect.Type]bool{}) }

// isVerbatim tells whether something in a type is kept as a client has written it. What goes through maps or text is
// encoded again.
func isVerbatim(t reflect.Type, seen map[reflect.Type]bool) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return isVerbatim(t.Elem(), seen)
	case reflect.Struct:
	default:
		return false
	}
	if seen[t] || t == reflect.TypeFor[metav1.ManagedFieldsEntry]() {
		return false
	}
	seen[t] = true
	writes := t.Implements(reflect.TypeFor[json.Marshaler]())
	for i := range t.NumField() {
		if f := t.Field(i).Type; writes && f == reflect.TypeFor[[]byte]() || isVerbatim(f, seen) {
			return true
		}
	}
	return false
}
