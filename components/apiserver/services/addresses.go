package services

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/core"
	"quintet.dev/quintet/components/apiserver/objects"
)

var (
	ipAddresses  = schema.GroupResource{Group: networkingv1.GroupName, Resource: "ipaddresses"}
	serviceCIDRs = schema.GroupResource{Group: networkingv1.GroupName, Resource: "servicecidrs"}
	services     = schema.GroupResource{Resource: "services"}
	endpoints    = schema.GroupResource{Resource: "endpoints"}
)

// managedBy marks the addresses that the allocator made.
const managedBy = "ipallocator.k8s.io"

var (
	errFull     = errors.New("range is full")
	errTaken    = errors.New("provided IP is already allocated")
	errMismatch = errors.New("the provided network does not match the current range")
)

// addresses takes and releases cluster IPs: an address is taken when an IPAddress of its name exists.
type addresses struct {
	objects objects.Store
	cidrs   []netip.Prefix
	random  func(n uint64) uint64
}

// takeAddresses takes the addresses that a service asks for, or needs, and that old hasn't got: all when it had no
// addresses for being an external name, or the one of a second family. Everything else that a change may ask for is
// refused by validation.
func (t *transaction) takeAddresses(new, old *corev1.Service) error {
	if !core.NeedsClusterIP(new) || core.Headless(new) {
		return nil
	}
	first := 0
	if old != nil && core.NeedsClusterIP(old) {
		if core.Headless(old) || len(old.Spec.IPFamilies) != 1 || len(new.Spec.IPFamilies) != 2 {
			return nil
		}
		first = 1
	}
	ips := make([]string, len(new.Spec.IPFamilies))
	copy(ips, new.Spec.ClusterIPs)
	asked := slices.Clone(ips)
	for i, family := range new.Spec.IPFamilies {
		if i < first {
			continue
		}
		ip, err := t.takeAddress(ips[i], family, new, asked)
		if err != nil {
			return err
		}
		ips[i] = ip
	}
	if len(ips) > 0 {
		new.Spec.ClusterIP, new.Spec.ClusterIPs = ips[0], ips
	}
	return nil
}

// takeAddress takes one address, of all that are asked for; want is "" for any.
func (t *transaction) takeAddress(want string, family corev1.IPFamily, owner *corev1.Service, asked []string) (string,
	error) {
	refused := func(format string, args ...any) error {
		if err := t.ctx.Err(); err != nil {
			return err // it is not the service's fault
		}
		return invalid(owner, field.ErrorList{field.Invalid(field.NewPath("spec", "clusterIPs"), asked,
			fmt.Sprintf("failed to allocate IP"+format, args...))})
	}
	if want != "" {
		ip, err := netip.ParseAddr(want)
		if err == nil {
			err = t.take(ip, owner)
		}
		if err != nil {
			return "", refused(" %s: %v", want, err)
		}
		return want, nil
	}
	ip, err := t.takeNext(family, owner)
	switch {
	case errors.Is(err, errFull):
		return "", apierrors.NewInternalError(
			fmt.Errorf("failed to allocate a serviceIP for Service %q: %w", owner.Name, err))
	case err != nil:
		return "", refused(": %v", err)
	}
	return ip.String(), nil
}

// take takes one address, which must be free and in a range. A dry run looks at the range alone, as upstream's does.
func (t *transaction) take(ip netip.Addr, owner *corev1.Service) error {
	start := time.Now()
	ranges := t.allocator.addresses.ranges(t.ctx, familyOf(ip))
	if i := slices.IndexFunc(ranges, func(r netip.Prefix) bool { return usable(r, ip) }); i >= 0 {
		err := t.claim(ip, owner)
		if !t.dryRun {
			t.allocator.metrics.tookIP(ranges[i], static, start, err)
		}
		return err
	}
	if t.dryRun && len(ranges) > 0 {
		return fmt.Errorf("the provided IP (%v) is not in the valid range. The range of valid IPs is %s", ip, ranges[0])
	}
	return errMismatch
}

func (t *transaction) claim(ip netip.Addr, owner *corev1.Service) error {
	if t.dryRun {
		return nil
	}
	a := t.allocator
	a.hold([]netip.Addr{ip}, nil, 1)
	_, err := a.addresses.objects.Create(t.ctx, ipAddresses, addressObject(ip, owner))
	if err != nil {
		a.hold([]netip.Addr{ip}, nil, -1)
		if apierrors.IsAlreadyExists(err) {
			return errTaken
		}
		return err
	}
	t.takenIPs = append(t.takenIPs, ip)
	return nil
}

// takeNext takes a free address: from a random place on in the upper part of a range, then in the lower part, where
// people choose addresses by hand (KEP-3070). A dry run looks for none: it shows the address of the range itself.
func (t *transaction) takeNext(family corev1.IPFamily, owner *corev1.Service) (netip.Addr, error) {
	a := &t.allocator.addresses
	begun := time.Now()
	for _, r := range a.ranges(t.ctx, family) {
		if t.dryRun {
			return r.Addr(), nil
		}
		size := hosts(r)
		lower := min(max(16, size/16), 256)
		if lower >= size {
			lower = 0
		}
		for _, part := range []struct{ from, n uint64 }{{lower, size - lower}, {0, lower}} {
			if part.n == 0 {
				continue
			}
			start := a.random(part.n)
			for i := range part.n {
				ip := at(r, part.from+(start+i)%part.n)
				if _, err := a.objects.Get(t.ctx, ipAddresses, "", ip.String()); err == nil {
					continue
				}
				if err := t.claim(ip, owner); err == nil {
					t.allocator.metrics.tookIP(r, dynamic, begun, nil)
					return ip, nil
				} else if !errors.Is(err, errTaken) {
					return netip.Addr{}, err
				}
			}
		}
	}
	return netip.Addr{}, errFull
}

// release gives back an address that owner had. One that has become another service's meanwhile, because a repair was
// faster, stays.
func (a *addresses) release(ctx context.Context, ip netip.Addr, owner *corev1.Service) error {
	obj, err := objects.As[*networkingv1.IPAddress](a.objects.Live(ctx, ipAddresses, "", ip.String()))
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	}
	if p := obj.Spec.ParentRef; p != nil && (p.Namespace != owner.Namespace || p.Name != owner.Name) {
		return nil
	}
	if err = a.objects.Delete(ctx, ipAddresses, "", ip.String(), obj.UID); apierrors.IsNotFound(err) ||
		apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// ranges are those of a family that addresses are given from: of the ServiceCIDR objects that are ready and stay, and
// what is configured where no object tells about it (yet).
func (a *addresses) ranges(ctx context.Context, family corev1.IPFamily) []netip.Prefix {
	list, err := objects.ListAs[*networkingv1.ServiceCIDR](a.objects.List(ctx, serviceCIDRs, ""))
	if err != nil {
		list = nil // not served: the configured ranges are all there is
	}
	var out, told []netip.Prefix
	for _, c := range list {
		for _, text := range c.Spec.CIDRs {
			p, err := netip.ParsePrefix(text)
			if err != nil || familyOf(p.Addr()) != family {
				continue
			}
			told = append(told, p.Masked())
			if ready(c) && !slices.Contains(out, p.Masked()) {
				out = append(out, p.Masked())
			}
		}
	}
	for _, c := range a.cidrs {
		if familyOf(c.Addr()) == family && !slices.Contains(told, c.Masked()) {
			out = append(out, c.Masked())
		}
	}
	return out
}

// allRanges are all that there are and that are configured, those too from which no address is given.
func (a *addresses) allRanges(ctx context.Context) []netip.Prefix {
	list, err := objects.ListAs[*networkingv1.ServiceCIDR](a.objects.List(ctx, serviceCIDRs, ""))
	if err != nil {
		list = nil // as above
	}
	out := slices.Clone(a.cidrs)
	for _, c := range list {
		for _, text := range c.Spec.CIDRs {
			if p, err := netip.ParsePrefix(text); err == nil {
				out = append(out, p.Masked())
			}
		}
	}
	return out
}

// ready reports whether addresses may be allocated from a range. One without a Ready condition is ready: the controller
// that sets it may not run.
func ready(c *networkingv1.ServiceCIDR) bool {
	if c.DeletionTimestamp != nil {
		return false
	}
	condition := meta.FindStatusCondition(c.Status.Conditions, networkingv1.ServiceCIDRConditionReady)
	return condition == nil || condition.Status == metav1.ConditionTrue
}

func addressObject(ip netip.Addr, owner *corev1.Service) api.Object {
	return &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{
			Name: ip.String(),
			Labels: map[string]string{
				networkingv1.LabelIPAddressFamily: string(familyOf(ip)),
				networkingv1.LabelManagedBy:       managedBy,
			},
		},
		Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{
			Resource: services.Resource, Namespace: owner.Namespace, Name: owner.Name,
		}},
	}
}

// hosts counts the addresses of a range that can be given: not the network's own, nor IPv4's broadcast address.
func hosts(p netip.Prefix) uint64 {
	n := p.Addr().BitLen() - p.Bits()
	if n >= 63 {
		return math.MaxInt64
	}
	size := uint64(1) << n
	switch {
	case size <= 1:
		return 0
	case p.Addr().Is4() && size == 2:
		return 0
	case p.Addr().Is4():
		return size - 2
	}
	return size - 1
}

// at returns the i-th host of a range.
func at(p netip.Prefix, i uint64) netip.Addr {
	b := p.Masked().Addr().As16()
	low, carry := bits.Add64(binary.BigEndian.Uint64(b[8:]), i+1, 0)
	binary.BigEndian.PutUint64(b[8:], low)
	binary.BigEndian.PutUint64(b[:8], binary.BigEndian.Uint64(b[:8])+carry)
	ip := netip.AddrFrom16(b)
	if p.Addr().Is4() {
		return ip.Unmap()
	}
	return ip
}

// usable reports whether ip is a host of the range.
func usable(p netip.Prefix, ip netip.Addr) bool {
	if !p.Contains(ip) || ip == p.Masked().Addr() {
		return false
	}
	return !p.Addr().Is4() || ip != at(p, hosts(p)) // the one after the last host is the broadcast address
}
