// Package collection knows the changes that admission lets pass unlooked at, as the garbage collector makes them.
package collection

import (
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
)

// Only reports whether an update touches nothing but what the garbage collector writes: it must be able to let go of an
// object without having what is needed to write it. Where there is no old object, it is no update.
func Only(obj, old runtime.Object) bool {
	if old == nil || obj == nil {
		return false
	}
	was, err := meta.Accessor(old)
	if err != nil {
		return false
	}
	copied := obj.DeepCopyObject()
	now, err := meta.Accessor(copied)
	if err != nil {
		return false
	}
	now.SetOwnerReferences(was.GetOwnerReferences())
	now.SetFinalizers(was.GetFinalizers())
	now.SetSelfLink(was.GetSelfLink())
	now.SetManagedFields(was.GetManagedFields())
	copied.GetObjectKind().SetGroupVersionKind(old.GetObjectKind().GroupVersionKind())
	return equality.Semantic.DeepEqual(copied, old)
}
