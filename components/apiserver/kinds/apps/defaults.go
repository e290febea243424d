package apps

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// annotate sets an annotation, or removes it if it has no value.
func annotate(meta *metav1.ObjectMeta, name, value string) {
	if had, ok := meta.Annotations[name]; had == value && ok == (value != "") {
		return
	}
	meta.Annotations = maps.Clone(meta.Annotations)
	if value == "" {
		delete(meta.Annotations, name)
		return
	}
	if meta.Annotations == nil {
		meta.Annotations = map[string]string{}
	}
	meta.Annotations[name] = value
}

func setDefault[T any](p **T, value T) {
	if *p == nil {
		*p = &value
	}
}
