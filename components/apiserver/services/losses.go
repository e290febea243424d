package services

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/objects"
)

// losses are addresses of services that may not be written down: somebody deleted one under its service, or a service came into the
// store by another way than this API.
type losses struct {
	allocator *Allocator
	wake      chan struct{}

	mu sync.Mutex
	of map[netip.Addr]types.NamespacedName // the service
}

// follow looks for losses in what changes, until ctx ends.
func (l *losses) follow(ctx context.Context) error {
	store := l.allocator.Objects
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error {
		return store.Feed(ctx, services, func(_, new kinds.Object) { l.serviceChanged(new) }, func() {})
	})
	both.Go(func() error {
		return store.Feed(ctx, ipAddresses, func(old, new kinds.Object) { l.addressChanged(old, new) }, func() {})
	})
	return both.Wait()
}

func (l *losses) serviceChanged(new kinds.Object) {
	if s, ok := new.(*corev1.Service); ok {
		for _, ip := range clusterIPs(s) {
			l.note(ip, types.NamespacedName{Namespace: s.Namespace, Name: s.Name})
		}
	}
}

func (l *losses) addressChanged(old, new kinds.Object) {
	address, ok := old.(*networkingv1.IPAddress)
	if !ok || new != nil || !ofService(address.Spec.ParentRef) {
		return
	}
	if ip, err := netip.ParseAddr(address.Name); err == nil {
		l.note(ip, types.NamespacedName{Namespace: address.Spec.ParentRef.Namespace, Name: address.Spec.ParentRef.Name})
	}
}

func (l *losses) note(ip netip.Addr, of types.NamespacedName) {
	l.mu.Lock()
	l.of[ip] = of
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// restore writes down what was noted and is a loss: most addresses are there, and most services whose address goes are gone.
func (l *losses) restore(ctx context.Context) error {
	l.mu.Lock()
	noted := l.of
	l.of = map[netip.Addr]types.NamespacedName{}
	l.mu.Unlock()
	var errs []error
	for ip, of := range noted {
		errs = append(errs, l.allocator.restore(ctx, ip, of))
	}
	return errors.Join(errs...) // the next repair tries again
}

func (a *Allocator) restore(ctx context.Context, ip netip.Addr, of types.NamespacedName) error {
	if _, err := a.Objects.Get(ctx, ipAddresses, "", ip.String()); !apierrors.IsNotFound(err) || a.isPendingIP(ip.String()) {
		return nil
	}
	s, err := objects.As[*corev1.Service](a.Objects.Live(ctx, services, of.Namespace, of.Name))
	if apierrors.IsNotFound(err) || err == nil && !slices.Contains(clusterIPs(s), ip) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := a.Objects.Live(ctx, ipAddresses, "", ip.String()); !apierrors.IsNotFound(err) {
		return err
	}
	inRange := func(r netip.Prefix) bool { return r.Contains(ip) }
	if slices.ContainsFunc(a.addresses.allRanges(ctx), inRange) {
		a.writeDown(ctx, ip, s)
	}
	return nil
}
