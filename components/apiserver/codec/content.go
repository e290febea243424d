package codec

import (
	"reflect"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/equality"
)

// SameContent reports whether two objects are the same but for their type meta, empty and missing lists and maps being
// equal. It begins with what differs most often: the metadata, which is compared fast, and the status, which is the
// last.
func SameContent(a, b api.Object) bool {
	if _, free := a.(runtime.Unstructured); free {
		var none schema.GroupVersionKind
		return apiequality.Semantic.DeepEqual(WithKind(a, none), WithKind(b, none))
	}
	x, y := reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem()
	if x.Type() != y.Type() {
		return false
	}
	const first = 1 // the metadata
	if !sameField(x.Field(first), y.Field(first)) {
		return false
	}
	for i := x.NumField() - 1; i >= 0; i-- {
		if i != first && !sameField(x.Field(i), y.Field(i)) {
			return false
		}
	}
	return true
}

func sameField(a, b reflect.Value) bool {
	return a.Type() == typeMeta || equality.Identical(a, b) ||
		apiequality.Semantic.DeepEqual(a.Addr().Interface(), b.Addr().Interface())
}

var typeMeta = reflect.TypeFor[metav1.TypeMeta]()
