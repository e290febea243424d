package handlers

import (
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/kinds/equality"
	"quintet.dev/quintet/components/apiserver/serial"
)

// Structured merge walks through two objects field by field to find what differs. Most writes change little, and whether a
// whole part is the same can be told much faster: such parts are left out of both before it looks.

// oneVersion tells whether all that is booked of an object is so in the version that is stored, which the write is of as well.
// Then structured merge converts nothing, and what it finds out of one part of an object depends on no other.
func (c *call) oneVersion(old, obj kinds.Object) bool {
	if _, free := old.(runtime.Unstructured); free || c.version.ToHub != nil || c.isScale() {
		return false
	}
	version := c.gvk.GroupVersion().String()
	for _, entries := range [][]metav1.ManagedFieldsEntry{old.GetManagedFields(), obj.GetManagedFields()} {
		for i := range entries {
			if entries[i].APIVersion != version {
				return false
			}
		}
	}
	return true
}

// apart are two objects of one Go type without the parts that are the same in both. They share memory with a and b.
func apart(a, b kinds.Object) (kinds.Object, kinds.Object) {
	if reflect.TypeOf(a) != reflect.TypeOf(b) {
		return a, b
	}
	a, b = serial.ShallowCopy(a), serial.ShallowCopy(b)
	leaveOut(reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem(), 2)
	return a, b
}

// leaveOut clears the fields of two structs that are equal, down to a depth. Plain ones stay: they are compared fast, and
// some (the identity) are read besides, as are the kind and the managed fields.
func leaveOut(a, b reflect.Value, depth int) {
	for i := range a.NumField() {
		x, y := a.Field(i), b.Field(i)
		switch x.Kind() {
		case reflect.Struct, reflect.Slice, reflect.Map, reflect.Pointer:
		default:
			continue
		}
		switch t := x.Type(); {
		case t == typeMeta, t == managedFields:
		case t == objectMeta:
			leaveOut(x, y, 1)
		case equality.Identical(x, y):
			x.SetZero()
			y.SetZero()
		case depth > 1 && x.Kind() == reflect.Struct && !x.Type().Implements(marshaler):
			leaveOut(x, y, depth-1)
		}
	}
}

var (
	managedFields = reflect.TypeFor[[]metav1.ManagedFieldsEntry]()
	objectMeta    = reflect.TypeFor[metav1.ObjectMeta]()
	marshaler     = reflect.TypeFor[interface{ MarshalJSON() ([]byte, error) }]()
)
