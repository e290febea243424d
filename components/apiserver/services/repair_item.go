package services

import (
	"context"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	utilnet "k8s.io/utils/net"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/core"
	"quintet.dev/quintet/components/apiserver/objects"
)

// How long an address that no service has is left alone after it was made: its service is stored after it, and where
// that turns out to exist already, the address is given back.
const (
	untilStored    = 60 * time.Second // as long as a request may take
	untilGivenBack = 5 * time.Second
)

// repairService sees to it that the addresses of a service are written down as its. What looks wrong is looked at again
// as it is stored now before anything is done.
func (a *Allocator) repairService(ctx context.Context, s *corev1.Service, ranges []netip.Prefix) error {
	if !core.NeedsClusterIP(s) || core.Headless(s) {
		return nil
	}
	for _, text := range s.Spec.ClusterIPs {
		ip, ok := netip.AddrFromSlice(utilnet.ParseIPSloppy(text))
		ip = ip.Unmap()
		switch {
		case !ok:
			a.events.invalid(s)
		case !slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return r.Contains(ip) }):
			a.events.outside(ip, s)
		case a.isPendingIP(ip.String()):
			a.requeueAfter(s, untilGivenBack)
		default:
			if err := a.repairIP(ctx, ip, s); err != nil {
				return err
			}
		}
	}
	return nil
}

// repairIP checks, and if necessary repairs, one cluster IP of a service.
func (a *Allocator) repairIP(ctx context.Context, ip netip.Addr, s *corev1.Service) error {
	obj, err := objects.As[*networkingv1.IPAddress](a.Objects.Get(ctx, ipAddresses, "", ip.String()))
	if apierrors.IsNotFound(err) {
		return a.restore(ctx, ip, s)
	}
	if err != nil {
		return err
	}
	p := obj.Spec.ParentRef
	mine := ofService(p) && p.Namespace == s.Namespace && p.Name == s.Name
	if mine && marked(obj) {
		return nil
	}
	if ofService(p) && !mine {
		other, err := objects.As[*corev1.Service](a.Objects.Live(ctx, services, p.Namespace, p.Name))
		switch {
		case err == nil && slices.Contains(clusterIPs(other), ip):
			a.events.shared(ip, s)
			return nil
		case err == nil && marked(obj):
			// the address isn't the other's either: it goes, when it is looked at itself
			a.requeueAfter(s, untilGivenBack)
			return nil
		case err != nil && !apierrors.IsNotFound(err):
			return err
		}
	}
	if has, err := a.stillHas(ctx, ip, s); err != nil || !has {
		return err
	}
	return a.rewrite(ctx, obj, s)
}

// requeueAfter requeues a service that can't be repaired yet.
func (a *Allocator) requeueAfter(s *corev1.Service, wait time.Duration) {
	a.queue.AddAfter(item{name: types.NamespacedName{Namespace: s.Namespace, Name: s.Name}}, wait)
}

// stillHas tells whether a service has an address, as it is stored now.
func (a *Allocator) stillHas(ctx context.Context, ip netip.Addr, s *corev1.Service) (bool, error) {
	now, err := objects.As[*corev1.Service](a.Objects.Live(ctx, services, s.Namespace, s.Name))
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil && slices.Contains(clusterIPs(now), ip), err
}

// restore writes down an address that a service was found without.
func (a *Allocator) restore(ctx context.Context, ip netip.Addr, s *corev1.Service) error {
	if has, err := a.stillHas(ctx, ip, s); err != nil || !has {
		return err
	}
	if _, err := a.Objects.Live(ctx, ipAddresses, "", ip.String()); !apierrors.IsNotFound(err) {
		return err
	}
	switch _, err := a.Objects.Create(ctx, ipAddresses, addressObject(ip, s)); {
	case err == nil:
		a.events.missing(ip, s)
	case !apierrors.IsAlreadyExists(err):
		klog.FromContext(ctx).Error(err, "Failed to repair cluster IP; retrying", "ip", ip,
			"service", klog.KObj(s))
		a.requeueAfter(s, retryPause)
	}
	return nil
}

// rewrite sets the reference of an IPAddress to its service. A service that allocates it in between shares it, which
// the next repair detects.
func (a *Allocator) rewrite(ctx context.Context, obj *networkingv1.IPAddress, user *corev1.Service) error {
	ip, err := netip.ParseAddr(obj.Name)
	if err != nil {
		return nil // which no service can have
	}
	if p := obj.Spec.ParentRef; !ofService(p) || p.Namespace != user.Namespace || p.Name != user.Name {
		a.events.foreign(ip, user)
	}
	if err := a.remove(ctx, obj); err != nil {
		return err
	}
	_, err = a.Objects.Create(ctx, ipAddresses, addressObject(ip, user))
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// remove deletes an address, unless another server was faster.
func (a *Allocator) remove(ctx context.Context, obj *networkingv1.IPAddress) error {
	err := a.Objects.Delete(ctx, ipAddresses, "", obj.Name, obj.UID)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// repairAddress removes what the allocator has made and no service has.
func (a *Allocator) repairAddress(ctx context.Context, obj *networkingv1.IPAddress) error {
	if obj.Labels[networkingv1.LabelManagedBy] != managedBy {
		return nil
	}
	p, key := obj.Spec.ParentRef, item{address: true, name: types.NamespacedName{Name: obj.Name}}
	if a.isPendingIP(obj.Name) {
		a.queue.AddAfter(key, untilGivenBack)
		return nil
	}
	if !ofService(p) {
		a.events.modified(obj)
		return a.remove(ctx, obj)
	}
	gone := false
	// Most are in order, or will be when what is under way has ended: for these the memory is asked alone.
	for _, read := range []func(context.Context, schema.GroupResource, string, string) (api.Object,
		error){a.Objects.Get, a.Objects.Live} {
		s, err := objects.As[*corev1.Service](read(ctx, services, p.Namespace, p.Name))
		switch {
		case apierrors.IsNotFound(err):
			s = nil
		case err != nil:
			return err
		case slices.ContainsFunc(clusterIPs(s), func(ip netip.Addr) bool { return ip.String() == obj.Name }):
			return nil
		}
		if due := obj.CreationTimestamp.Add(settleTime(obj, s)); a.Clock.Now().Before(due) {
			a.queue.AddAfter(key, due.Sub(a.Clock.Now()))
			return nil
		}
		gone = s == nil
	}
	a.events.leaked(obj, !gone)
	return a.remove(ctx, obj)
}

// settleTime is for how long an address may exist that isn't in its service, nil if there is none.
func settleTime(obj *networkingv1.IPAddress, s *corev1.Service) time.Duration {
	switch {
	case s == nil, s.Spec.Type == corev1.ServiceTypeExternalName: // which is to get the address, perhaps
		return untilStored
	case widens(obj, s):
		return untilStored
	case !obj.CreationTimestamp.Before(&s.CreationTimestamp): // times are known to the second
		return untilGivenBack
	}
	return 0
}

// widens tells whether an address may be the second of a service that has one of the other family.
func widens(obj *networkingv1.IPAddress, s *corev1.Service) bool {
	ip, err := netip.ParseAddr(obj.Name)
	has := clusterIPs(s)
	return err == nil && len(has) == 1 && familyOf(has[0]) != familyOf(ip)
}

// marked tells whether an address has the labels that the allocator gives.
func marked(obj *networkingv1.IPAddress) bool {
	ip, err := netip.ParseAddr(obj.Name)
	return err == nil && obj.Labels[networkingv1.LabelManagedBy] == managedBy &&
		obj.Labels[networkingv1.LabelIPAddressFamily] == string(familyOf(ip))
}

func ofService(p *networkingv1.ParentReference) bool {
	return p != nil && p.Group == "" && p.Resource == services.Resource
}
