package kinds

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Metadata is what those see of an object of the kind who ask for its metadata alone. It may share memory with obj.
func (k *Kind) Metadata(obj metav1.Object) *metav1.PartialObjectMetadata {
	out := meta.AsPartialObjectMetadata(obj)
	for _, name := range k.FieldAnnotations {
		if _, has := out.Annotations[name]; has {
			out.Annotations = maps.Clone(out.Annotations)
			delete(out.Annotations, name)
		}
	}
	return out
}

// wholeFirst tells of the whole changed object, metadata first, and then of the change in the same order.
func wholeFirst[P Object](whole, change func(new, old P) field.ErrorList) func(new, old P, meta MetaErrors) field.ErrorList {
	return func(new, old P, meta MetaErrors) field.ErrorList {
		return slices.Concat(meta.Object, whole(new, old), meta.Change, change(new, old))
	}
}

// changeFirst tells of the change, metadata first, and then of the whole changed object in the same order.
func changeFirst[P Object](change, whole func(new, old P) field.ErrorList) func(new, old P, meta MetaErrors) field.ErrorList {
	return func(new, old P, meta MetaErrors) field.ErrorList {
		return slices.Concat(meta.Change, change(new, old), meta.Object, whole(new, old))
	}
}

// whatever is a check that needs nothing of the old object.
func whatever[P Object](check func(obj P) field.ErrorList) func(new, old P) field.ErrorList {
	return func(new, _ P) field.ErrorList { return check(new) }
}

// unchecked allows any change.
func unchecked[P Object](_, _ P) field.ErrorList { return nil }
