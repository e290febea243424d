// Package objects is how the parts of the API server that decide (authentication, authorization, admission) read and
// write stored objects: in process, by Go type, past the request chain.
package objects

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// Reader reads stored objects as hub types. They are shared by all readers and must not be changed. Errors are API
// status errors; a resource that is not served is not found.
type Reader interface {
	// Get reads from memory and may be a moment old.
	Get(ctx context.Context, resource schema.GroupResource, namespace, name string) (api.Object, error)
	// Live reads what is stored now.
	Live(ctx context.Context, resource schema.GroupResource, namespace, name string) (api.Object, error)
	// List reads from memory all objects of a namespace, or of all namespaces when it is "".
	List(ctx context.Context, resource schema.GroupResource, namespace string) ([]api.Object, error)
}

// Feeder tells of stored objects as they change.
type Feeder interface {
	// Feed calls changed for each object that exists (old is nil), then for every change in order (new is nil for a
	// deletion), one call at a time, and synced once when the first are through. It returns when ctx ends. The objects
	// must not be changed.
	Feed(ctx context.Context, resource schema.GroupResource, changed func(old, new api.Object), synced func()) error
}

// Writer writes objects for the server itself: they are defaulted and get their metadata, but pass neither
// authorization nor admission. The fields they set are managed by the server, except for pods: the fields that a
// binding or an eviction sets have no manager.
type Writer interface {
	// Create stores an object. Errors: AlreadyExists.
	Create(ctx context.Context, resource schema.GroupResource, obj api.Object) (api.Object, error)
	// Update lets mutate change a copy of what is stored, again when another writer was faster. An object returned
	// unchanged is not written.
	Update(ctx context.Context, resource schema.GroupResource, namespace, name string,
		mutate func(api.Object) (api.Object, error)) (api.Object, error)
	// UpdateStatus is Update through the status subresource: the server is recorded there as the manager of the changed
	// fields.
	UpdateStatus(ctx context.Context, resource schema.GroupResource, namespace, name string,
		mutate func(api.Object) (api.Object, error)) (api.Object, error)
	// ApplyStatus applies a manager's part of the status with force; config is an apply configuration.
	ApplyStatus(ctx context.Context, resource schema.GroupResource, namespace, name, manager string,
		config any) (api.Object, error)
	// Delete removes an object at once, if it has this uid; "" means any.
	Delete(ctx context.Context, resource schema.GroupResource, namespace, name string, uid types.UID) error
}

// Store is all three.
type Store interface {
	Reader
	Feeder
	Writer
}

// As turns the answer of a read into the Go type that the resource has.
func As[T api.Object](obj api.Object, err error) (T, error) {
	var none T
	if err != nil {
		return none, err
	}
	typed, ok := obj.(T)
	if !ok {
		return none, fmt.Errorf("stored object has Go type %T, want %T", obj, none)
	}
	return typed, nil
}

// ListAs turns the answer of a list into objects of the Go type that the resource has.
func ListAs[T api.Object](list []api.Object, err error) ([]T, error) {
	if err != nil {
		return nil, err
	}
	typed := make([]T, len(list))
	for i, obj := range list {
		if typed[i], err = As[T](obj, nil); err != nil {
			return nil, err
		}
	}
	return typed, nil
}
