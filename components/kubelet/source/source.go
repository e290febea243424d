// Package source says where a kubelet learns of the objects that are its node's: by a watch of its own, or by one that
// the kubelets of a process share.
package source

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// Handler takes in objects, one at a time and each object's versions in their order. Objects are not to be changed.
type Handler[T any] struct {
	// Set takes in a new version of an object.
	Set func(T)
	// Gone takes in the last version of an object that left.
	Gone func(T)
	// Synced, if it is not nil, is called once: after Set with all objects that there were at first.
	Synced func()
}

// Source hands objects to h until ctx ends; h is not called after it returned.
type Source[T any] func(ctx context.Context, h Handler[T])

// Lister is the part of a typed client that lists and watches.
type Lister[L runtime.Object] interface {
	List(ctx context.Context, options metav1.ListOptions) (L, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// Selected lists and watches what the selector matches. client tells whether initial lists can be streamed.
func Selected[L runtime.Object](from Lister[L], selector fields.Selector, client any) cache.ListerWatcher {
	text := selector.String()
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.FieldSelector = text
			return from.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = text
			return from.Watch(ctx, options)
		},
	}, client)
}

// Watch is a source with a watch of its own. example is an object of the kind.
func Watch[T runtime.Object](lw cache.ListerWatcher, example T) Source[T] {
	return func(ctx context.Context, h Handler[T]) {
		_, controller := cache.NewInformerWithOptions(cache.InformerOptions{
			ListerWatcher: lw, ObjectType: example, Handler: events(h),
		})
		done := make(chan struct{})
		go func() {
			defer close(done)
			if cache.WaitFor(ctx, "", controller.HasSyncedChecker()) && h.Synced != nil {
				h.Synced()
			}
		}()
		controller.RunWithContext(ctx)
		<-done
	}
}

// events are h as an informer calls it.
func events[T any](h Handler[T]) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { h.Set(object.(T)) },
		UpdateFunc: func(_, object any) { h.Set(object.(T)) },
		DeleteFunc: func(object any) {
			if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = unknown.Obj
			}
			if last, ok := object.(T); ok {
				h.Gone(last)
			}
		},
	}
}
