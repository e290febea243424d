package runner

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// Handle adapts f to an event handler: old is nil for an added object, new is nil for a deleted one. A deletion
// that was missed is reported with the last state known.
func Handle[T any](f func(old, new *T)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if added, ok := obj.(*T); ok {
				f(nil, added)
			}
		},
		UpdateFunc: func(before, after any) {
			old, ok1 := before.(*T)
			now, ok2 := after.(*T)
			if ok1 && ok2 {
				f(old, now)
			}
		},
		DeleteFunc: func(obj any) {
			if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = unknown.Obj
			}
			if gone, ok := obj.(*T); ok {
				f(gone, nil)
			}
		},
	}
}

// Last is the newer of the two states a handler gets.
func Last[T any](old, new *T) *T {
	if new != nil {
		return new
	}
	return old
}

// Key is how an object is named in queues and informers: namespace/name.
func Key(obj metav1.Object) string {
	return cache.MetaObjectToName(obj).String()
}
