package handlers

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quintet.dev/quintet/components/apiserver/cache"
	"quintet.dev/quintet/components/apiserver/kinds"
)

// Whole is a Local for who lets pass what nothing speaks against: what lies in the store, but can't be read, or has not come yet as the
// server starts, is not taken for what isn't there. Its reads fail, or wait, then, as they do for clients.
type Whole struct{ *Local }

// Get implements objects.Reader.
func (w Whole) Get(ctx context.Context, resource schema.GroupResource, namespace, name string) (kinds.Object, error) {
	obj, err := w.Local.Get(ctx, resource, namespace, name)
	if !apierrors.IsNotFound(err) {
		return obj, err
	}
	if d := w.find(resource); d != nil {
		if e, fault := d.cache.Get(ctx, d.cache.Key(namespace, name), "0"); fault == nil {
			return e.Object, nil
		} else if !apierrors.IsNotFound(fault) {
			return nil, fault
		}
	}
	return nil, err
}

// List implements objects.Reader.
func (w Whole) List(ctx context.Context, resource schema.GroupResource, namespace string) ([]kinds.Object, error) {
	d := w.find(resource)
	if d == nil {
		return w.Local.List(ctx, resource, namespace)
	}
	if err := d.cache.Fault(ctx, namespace); err != nil {
		return nil, err
	}
	list, err := w.Local.List(ctx, resource, namespace)
	if len(list) == 0 && d.cache.Landed(ctx) { // what this server has itself stored is there
		list, err = w.Local.List(ctx, resource, namespace)
	}
	if err != nil {
		return nil, err
	}
	// An object that became unreadable since the first look is in no list.
	return list, d.cache.Fault(ctx, namespace)
}

// Now is a Local of which all reads tell what is stored now, by whichever server it was written.
type Now struct{ *Local }

// Get implements objects.Reader.
func (n Now) Get(ctx context.Context, resource schema.GroupResource, namespace, name string) (kinds.Object, error) {
	return n.Live(ctx, resource, namespace, name)
}

// List implements objects.Reader.
func (n Now) List(ctx context.Context, resource schema.GroupResource, namespace string) ([]kinds.Object, error) {
	d, err := n.endpoint(resource, "")
	if err != nil {
		return nil, err
	}
	l, err := d.cache.List(ctx, cache.ListOptions{Namespace: namespace})
	if err != nil {
		return nil, err
	}
	out := make([]kinds.Object, len(l.Entries))
	for i, e := range l.Entries {
		out[i] = e.Object
	}
	return out, nil
}
