package registry

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quintet.dev/quintet/components/apiserver/cache"
	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// StrictReader is a Local for checks that pass when they find no objection: an object that can't be read, or has not
// been loaded yet as the server starts, is not taken for a missing one. Its reads fail, or wait, then, as they do for
// clients.
type StrictReader struct{ *Local }

// Get implements objects.Reader.
func (s StrictReader) Get(
	ctx context.Context, resource schema.GroupResource, namespace, name string,
) (api.Object, error) {
	obj, err := s.Local.Get(ctx, resource, namespace, name)
	if !apierrors.IsNotFound(err) {
		return obj, err
	}
	if ep := s.find(resource); ep != nil {
		if e, fault := ep.Cache.Get(ctx, ep.Cache.Key(namespace, name), "0"); fault == nil {
			return e.Object, nil
		} else if !apierrors.IsNotFound(fault) {
			return nil, fault
		}
	}
	return nil, err
}

// List implements objects.Reader.
func (s StrictReader) List(ctx context.Context, resource schema.GroupResource, namespace string) ([]api.Object,
	error) {
	ep := s.find(resource)
	if ep == nil {
		return s.Local.List(ctx, resource, namespace)
	}
	if err := ep.Cache.Fault(ctx, namespace); err != nil {
		return nil, err
	}
	list, err := s.Local.List(ctx, resource, namespace)
	if len(list) == 0 && ep.Cache.WaitForOwnWrites(ctx) { // what this server has itself stored is there
		list, err = s.Local.List(ctx, resource, namespace)
	}
	if err != nil {
		return nil, err
	}
	// An object that became unreadable since the first look is in no list.
	return list, ep.Cache.Fault(ctx, namespace)
}

// LiveReader is a Local of which all reads tell what is stored now, by whichever server it was written.
type LiveReader struct{ *Local }

// Get implements objects.Reader.
func (l LiveReader) Get(ctx context.Context, resource schema.GroupResource, namespace, name string) (api.Object,
	error) {
	return l.Live(ctx, resource, namespace, name)
}

// List implements objects.Reader.
func (l LiveReader) List(ctx context.Context, resource schema.GroupResource, namespace string) ([]api.Object, error) {
	ep, err := l.endpoint(resource, "")
	if err != nil {
		return nil, err
	}
	list, err := ep.Cache.List(ctx, cache.ListOptions{Namespace: namespace})
	if err != nil {
		return nil, err
	}
	out := make([]api.Object, len(list.Entries))
	for i, e := range list.Entries {
		out[i] = e.Object
	}
	return out, nil
}
