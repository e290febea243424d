package services

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/objects"
)

// item is what the repair loop reconciles: a service, an address, or, without a name, all of them.
type item struct {
	address bool
	name    types.NamespacedName
}

// requeuer takes items to reconcile: reconcile.Loop.
type requeuer interface {
	Add(item)
	AddAfter(item, time.Duration)
}

// follow enqueues what changes until ctx ends: an address may be changed or deleted while its service uses it, and
// services may come into the store by another way than this API.
func (a *Allocator) follow(ctx context.Context) error {
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error {
		return a.Objects.Feed(ctx, services, func(_, new api.Object) {
			if new != nil {
				a.queue.Add(item{name: types.NamespacedName{Namespace: new.GetNamespace(), Name: new.GetName()}})
			}
		}, func() {})
	})
	both.Go(func() error { return a.Objects.Feed(ctx, ipAddresses, a.addressChanged, func() {}) })
	return both.Wait()
}

func (a *Allocator) addressChanged(old, new api.Object) {
	if new != nil {
		a.queue.Add(item{address: true, name: types.NamespacedName{Name: new.GetName()}})
	}
	// The service that has lost it, or has it no longer as it was.
	if obj, ok := old.(*networkingv1.IPAddress); ok && ofService(obj.Spec.ParentRef) {
		a.queue.Add(item{name: types.NamespacedName{Namespace: obj.Spec.ParentRef.Namespace,
			Name: obj.Spec.ParentRef.Name}})
	}
}

// retryPause is how long it takes until what went wrong is tried again.
const retryPause = time.Second

// reconcile repairs one service or address, or all of them. What is gone needs nothing.
func (a *Allocator) reconcile(ctx context.Context, what item) error {
	switch {
	case what == item{}:
		if err := a.Repair(ctx); err != nil {
			return err
		}
		a.queue.AddAfter(what, a.RepairEvery)
		return nil
	case what.address:
		obj, err := objects.As[*networkingv1.IPAddress](a.Objects.Get(ctx, ipAddresses, "", what.name.Name))
		if err == nil {
			err = a.repairAddress(ctx, obj)
		}
		return ignoreNotFound(err)
	}
	s, err := objects.As[*corev1.Service](a.Objects.Get(ctx, services, what.name.Namespace, what.name.Name))
	if err == nil {
		err = a.repairService(ctx, s, a.addresses.allRanges(ctx))
	}
	return ignoreNotFound(err)
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
