package services

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/kinds/core"
	"quintet.dev/quintet/components/apiserver/objects"
)

var (
	ipAddresses  = schema.GroupResource{Group: networkingv1.GroupName, Resource: "ipaddresses"}
	serviceCIDRs = schema.GroupResource{Group: networkingv1.GroupName, Resource: "servicecidrs"}
	services     = schema.GroupResource{Resource: "services"}
)

// managedBy marks the addresses that the allocator made.
const managedBy = "ipallocator.k8s.io"

var (
	errFull  = errors.New("range is full")
	errTaken = errors.New("provided IP is already allocated")
)

// addresses takes and releases cluster IPs: an address is taken when an IPAddress of its name exists.
type addresses struct {
	objects objects.Store
	cidrs   []netip.Prefix
	random  func(n uint64) uint64
}

// takeAddresses takes the addresses that new asks for, or needs, and that old hasn't got.
func (t *transaction) takeAddresses(new, old *corev1.Service) error {
	if !core.NeedsClusterIP(new) || headless(new) {
		if headless(new) {
			new.Spec.ClusterIP, new.Spec.ClusterIPs = corev1.ClusterIPNone, []string{corev1.ClusterIPNone}
		}
		return nil
	}
	had := map[netip.Addr]bool{}
	if old != nil {
		for _, ip := range clusterIPs(old) {
			had[ip] = true
		}
	}
	ips := make([]string, len(new.Spec.IPFamilies))
	copy(ips, new.Spec.ClusterIPs)
	if len(ips) > 0 && ips[0] == "" {
		ips[0] = new.Spec.ClusterIP
	}
	for i, family := range new.Spec.IPFamilies {
		if ips[i] == "" {
			ip, err := t.takeNext(family, new)
			if err != nil {
				return apierrors.NewInternalError(fmt.Errorf("failed to allocate a serviceIP: %w", err))
			}
			ips[i] = ip.String()
			continue
		}
		ip, err := netip.ParseAddr(ips[i])
		if err == nil && !had[ip] {
			err = t.take(ip, new)
		}
		if err != nil {
			return invalid(new, field.ErrorList{field.Invalid(field.NewPath("spec", "clusterIPs"), new.Spec.ClusterIPs,
				fmt.Sprintf("failed to allocate IP %s: %v", ips[i], err))})
		}
	}
	new.Spec.ClusterIP, new.Spec.ClusterIPs = ips[0], ips
	return nil
}

// take takes one address, which must be free and in a range.
func (t *transaction) take(ip netip.Addr, owner *corev1.Service) error {
	a := &t.allocator.addresses
	ranges := a.ranges(t.ctx, familyOf(ip))
	inRange := false
	for _, r := range ranges {
		inRange = inRange || usable(r, ip)
	}
	if !inRange {
		valid := "none"
		if len(ranges) > 0 {
			valid = ranges[0].String()
		}
		return fmt.Errorf("the provided IP (%v) is not in the valid range. The range of valid IPs is %s", ip, valid)
	}
	return t.claim(ip, owner)
}

func (t *transaction) claim(ip netip.Addr, owner *corev1.Service) error {
	a := t.allocator
	if t.dryRun {
		if _, err := a.addresses.objects.Get(t.ctx, ipAddresses, "", ip.String()); err == nil {
			return errTaken
		}
		return nil
	}
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
// people choose addresses by hand (KEP-3070).
func (t *transaction) takeNext(family corev1.IPFamily, owner *corev1.Service) (netip.Addr, error) {
	a := &t.allocator.addresses
	for _, r := range a.ranges(t.ctx, family) {
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
					return ip, nil
				} else if !errors.Is(err, errTaken) {
					return netip.Addr{}, err
				}
			}
		}
	}
	return netip.Addr{}, errFull
}

func (a *addresses) release(ctx context.Context, ip netip.Addr) error {
	err := a.objects.Delete(ctx, ipAddresses, "", ip.String(), "")
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// ranges are the configured range of a family, then those of the ServiceCIDR objects that are in use.
func (a *addresses) ranges(ctx context.Context, family corev1.IPFamily) []netip.Prefix {
	var out []netip.Prefix
	for _, c := range a.cidrs {
		if familyOf(c.Addr()) == family {
			out = append(out, c.Masked())
		}
	}
	list, err := objects.ListAs[*networkingv1.ServiceCIDR](a.objects.List(ctx, serviceCIDRs, ""))
	if err != nil {
		return out // not served: the configured ranges are all there is
	}
	for _, c := range list {
		if c.DeletionTimestamp != nil {
			continue
		}
		for _, text := range c.Spec.CIDRs {
			if p, err := netip.ParsePrefix(text); err == nil && familyOf(p.Addr()) == family && !contains(out, p.Masked()) {
				out = append(out, p.Masked())
			}
		}
	}
	return out
}

func contains(list []netip.Prefix, p netip.Prefix) bool {
	for _, q := range list {
		if p == q {
			return true
		}
	}
	return false
}

func addressObject(ip netip.Addr, owner *corev1.Service) kinds.Object {
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
