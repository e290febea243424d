package services

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/objects"
)

// item is a service, or an address, that is to be looked at.
type item struct {
	address bool
	name    types.NamespacedName
}

// agenda is what is to be looked at, and when.
type agenda struct {
	wake chan struct{} // tells of what was noted

	mu  sync.Mutex
	due map[item]time.Time
}

func newAgenda() *agenda { return &agenda{wake: make(chan struct{}, 1), due: map[item]time.Time{}} }

// at notes what is to be looked at some time, unless that is sooner already.
func (g *agenda) at(what item, when time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if known, ok := g.due[what]; !ok || when.Before(known) {
		g.due[what] = when
	}
}

// now notes what is to be looked at, and tells so.
func (g *agenda) now(what item) {
	g.at(what, time.Time{})
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// take returns what is due, and strikes it off.
func (g *agenda) take(now time.Time) []item {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []item
	for what, when := range g.due {
		if !when.After(now) {
			out = append(out, what)
			delete(g.due, what)
		}
	}
	return out
}

// next is how long it takes until something is due, if anything is noted.
func (g *agenda) next(now time.Time) (wait time.Duration, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, when := range g.due {
		if left := max(when.Sub(now), 0); !ok || left < wait {
			wait, ok = left, true
		}
	}
	return wait, ok
}

// follow notes what changes, until ctx ends: somebody may have changed or deleted an address under its service, and services may come
// into the store by another way than this API.
func (a *Allocator) follow(ctx context.Context) error {
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error {
		return a.Objects.Feed(ctx, services, func(_, new kinds.Object) {
			if new != nil {
				a.again.now(item{name: types.NamespacedName{Namespace: new.GetNamespace(), Name: new.GetName()}})
			}
		}, func() {})
	})
	both.Go(func() error { return a.Objects.Feed(ctx, ipAddresses, a.addressChanged, func() {}) })
	return both.Wait()
}

func (a *Allocator) addressChanged(old, new kinds.Object) {
	if new != nil {
		a.again.now(item{address: true, name: types.NamespacedName{Name: new.GetName()}})
	}
	// The service that has lost it, or has it no longer as it was.
	if obj, ok := old.(*networkingv1.IPAddress); ok && ofService(obj.Spec.ParentRef) {
		a.again.now(item{name: types.NamespacedName{Namespace: obj.Spec.ParentRef.Namespace, Name: obj.Spec.ParentRef.Name}})
	}
}

// retryPause is how long it takes until what went wrong is tried again.
const retryPause = time.Second

// lookAgain looks at what is due.
func (a *Allocator) lookAgain(ctx context.Context) error {
	due := a.again.take(a.Clock.Now())
	if len(due) == 0 {
		return nil
	}
	ranges := a.addresses.allRanges(ctx)
	var errs []error
	for _, what := range due {
		var err error
		if what.address {
			var obj *networkingv1.IPAddress
			if obj, err = objects.As[*networkingv1.IPAddress](a.Objects.Get(ctx, ipAddresses, "", what.name.Name)); err == nil {
				err = a.lookAtAddress(ctx, obj)
			}
		} else {
			var s *corev1.Service
			if s, err = objects.As[*corev1.Service](a.Objects.Get(ctx, services, what.name.Namespace, what.name.Name)); err == nil {
				err = a.lookAtService(ctx, s, ranges)
			}
		}
		if err != nil && !apierrors.IsNotFound(err) { // what is gone needs nothing
			a.again.at(what, a.Clock.Now().Add(retryPause))
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
