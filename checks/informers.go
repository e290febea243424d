package checks

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// Informers are client-go's, of some resources, for a comparison with lists.
type Informers struct {
	factory metadatainformer.SharedInformerFactory
	stores  map[schema.GroupVersionResource]cache.Store
}

// StartInformers starts informers of resources and waits until they have listed, or ctx ends. They run until ctx ends;
// Wait waits for that.
func StartInformers(ctx context.Context, config *rest.Config, resources ...schema.GroupVersionResource) (*Informers,
	error) {
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	out := &Informers{factory: metadatainformer.NewSharedInformerFactory(client, 0),
		stores: map[schema.GroupVersionResource]cache.Store{}}
	for _, r := range resources {
		out.stores[r] = out.factory.ForResource(r).Informer().GetStore()
	}
	out.factory.Start(ctx.Done())
	for r, synced := range out.factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return nil, fmt.Errorf("informer of %s: %w", r.GroupResource(), context.Cause(ctx))
		}
	}
	return out, nil
}

// Wait waits until the informers have ended, after their context has.
func (i *Informers) Wait() { i.factory.Shutdown() }

// Equal waits until the informers have what lists through config have, or ctx ends: then it returns a difference.
// Writers must have ended, and config should not be disturbed.
func (i *Informers) Equal(ctx context.Context, config *rest.Config) error {
	for r, store := range i.stores {
		if err := i.equal(ctx, config, r, store); err != nil {
			return fmt.Errorf("informer of %s: %w", r.GroupResource(), err)
		}
	}
	return nil
}

func (i *Informers) equal(ctx context.Context, config *rest.Config, r schema.GroupVersionResource,
	store cache.Store) error {
	var last error
	for {
		listed, err := List(ctx, config, r)
		switch {
		case err == nil:
			last = Equal(objects(store), listed)
		case last == nil:
			last = err
		}
		if err == nil && last == nil {
			return nil
		}
		if ctx.Err() != nil {
			return last
		}
		pause(ctx, retryAfter)
	}
}

func objects(store cache.Store) []metav1.Object {
	var out []metav1.Object
	for _, item := range store.List() {
		if obj, err := meta.Accessor(item); err == nil {
			out = append(out, obj)
		}
	}
	return out
}

// expired tells whether a resource version is too old to go on from.
func expired(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

// errorOf is the error by which a watch ends.
func errorOf(e watch.Event) error {
	if e.Type != watch.Error {
		return errors.New("an event without an object")
	}
	return apierrors.FromObject(e.Object)
}
