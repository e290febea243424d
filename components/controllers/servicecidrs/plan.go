// Package servicecidrs manages ServiceCIDRs (KEP-1880): a range that is not deleted is ready, and one
// that is deleted is kept until no address depends on it
// (https://kubernetes.io/docs/tasks/network/extend-service-ip-ranges/).
package servicecidrs

import (
	"net/netip"
	"slices"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// finalizer keeps a range that is deleted.
	finalizer = "networking.k8s.io/service-cidr-finalizer"
	// allocator is the managed-by label of IPAddresses of Services; others do not protect a ServiceCIDR.
	allocator = "ipallocator.k8s.io"
	// grace is how long a range that nothing depends on is kept still: API servers that have not seen its deletion yet
	// may still allocate from it.
	grace = 10 * time.Second
)

// decision is the action on a range.
type decision struct {
	addFinalizer, removeFinalizer bool
	condition                     *metav1.Condition // to be written; nil leaves it
	again                         time.Duration     // when to decide again; 0 is when something changes
}

// plan decides about c, which is one of ranges. Decided is by what is known of addresses.
func plan(c *networkingv1.ServiceCIDR, ranges []*networkingv1.ServiceCIDR, addresses []*networkingv1.IPAddress,
	now time.Time) decision {
	held := slices.Contains(c.Finalizers, finalizer)
	if c.DeletionTimestamp == nil {
		return decision{addFinalizer: !held, condition: change(c, metav1.Condition{
			Type: networkingv1.ServiceCIDRConditionReady, Status: metav1.ConditionTrue,
			Message: "Kubernetes Service CIDR is ready",
		})}
	}
	if !replaced(c, ranges) && depended(c, ranges, addresses) {
		return decision{condition: change(c, metav1.Condition{
			Type: networkingv1.ServiceCIDRConditionReady, Status: metav1.ConditionFalse,
			Reason:  networkingv1.ServiceCIDRReasonTerminating,
			Message: "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR",
		})}
	}
	if left := grace - now.Sub(c.DeletionTimestamp.Time); left > 0 {
		return decision{again: left}
	}
	return decision{removeFinalizer: held}
}

// change is the condition to write, nil if it is there.
func change(c *networkingv1.ServiceCIDR, wanted metav1.Condition) *metav1.Condition {
	has := meta.FindStatusCondition(c.Status.Conditions, wanted.Type)
	if has != nil && has.Status == wanted.Status && has.Reason == wanted.Reason && has.Message == wanted.Message {
		return nil
	}
	return &wanted
}

// replaced tells that another range holds all of c's.
func replaced(c *networkingv1.ServiceCIDR, ranges []*networkingv1.ServiceCIDR) bool {
	for _, own := range prefixes(c) {
		if !slices.ContainsFunc(ranges, func(other *networkingv1.ServiceCIDR) bool {
			return other.Name != c.Name && slices.ContainsFunc(prefixes(other), func(p netip.Prefix) bool {
				return p.Bits() <= own.Bits() && p.Contains(own.Addr())
			})
		}) {
			return false
		}
	}
	return true
}

// depended tells that there is an address of a Service in c and in no other range.
func depended(c *networkingv1.ServiceCIDR, ranges []*networkingv1.ServiceCIDR,
	addresses []*networkingv1.IPAddress) bool {
	return slices.ContainsFunc(addresses, func(a *networkingv1.IPAddress) bool {
		in := containing(a, ranges)
		return len(in) == 1 && in[0] == c.Name
	})
}

// containing are the names of the ranges that an address of a Service lies in.
func containing(a *networkingv1.IPAddress, ranges []*networkingv1.ServiceCIDR) []string {
	ip, err := netip.ParseAddr(a.Name)
	if err != nil || a.Labels[networkingv1.LabelManagedBy] != allocator {
		return nil
	}
	var out []string
	for _, r := range ranges {
		if slices.ContainsFunc(prefixes(r), func(p netip.Prefix) bool { return p.Contains(ip) }) {
			out = append(out, r.Name)
		}
	}
	return out
}

// overlapping are the names of the ranges that share addresses with c.
func overlapping(c *networkingv1.ServiceCIDR, ranges []*networkingv1.ServiceCIDR) []string {
	var out []string
	for _, r := range ranges {
		if slices.ContainsFunc(prefixes(r),
			func(p netip.Prefix) bool { return slices.ContainsFunc(prefixes(c), p.Overlaps) }) {
			out = append(out, r.Name)
		}
	}
	return out
}

func prefixes(c *networkingv1.ServiceCIDR) []netip.Prefix {
	var out []netip.Prefix
	for _, text := range c.Spec.CIDRs {
		if p, err := netip.ParsePrefix(text); err == nil {
			out = append(out, p.Masked())
		}
	}
	return out
}
