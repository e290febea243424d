package codec

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestShallowCopiesDoNotReachBack(t *testing.T) {
	kind := schema.GroupVersionKind{Version: "v2", Kind: "Other"}
	type object interface {
		runtime.Object
		metav1.Object
	}
	for name, original := range map[string]object{
		"typed": &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "1"}},
		"unstructured": &unstructured.Unstructured{
			Object: map[string]any{"kind": "Widget", "apiVersion": "v1",
				"metadata": map[string]any{"name": "a", "resourceVersion": "1"}}},
	} {
		before := original.DeepCopyObject()
		copied := ShallowCopy(original)
		copied.SetResourceVersion("2")
		copied.GetObjectKind().SetGroupVersionKind(kind)
		if copied.GetResourceVersion() != "2" || copied.GetName() != "a" {
			t.Errorf("%s: copy = %v", name, copied)
		}
		if original.GetResourceVersion() != "1" ||
			original.GetObjectKind().GroupVersionKind() != before.GetObjectKind().GroupVersionKind() {
			t.Errorf("%s: the original changed: %v", name, original)
		}
	}
}
