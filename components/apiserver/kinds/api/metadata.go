package api

import (
	"maps"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Metadata is the metadata of an object in metadata-only responses. It may share memory with obj.
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
