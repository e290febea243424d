package services

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"quintet.dev/quintet/components/apiserver/kinds/core"
)

func familyOf(ip netip.Addr) corev1.IPFamily {
	if ip.Is4() {
		return corev1.IPv4Protocol
	}
	return corev1.IPv6Protocol
}

func otherFamily(f corev1.IPFamily) corev1.IPFamily {
	if f == corev1.IPv4Protocol {
		return corev1.IPv6Protocol
	}
	return corev1.IPv4Protocol
}

func (a *Allocator) configured() []corev1.IPFamily {
	var out []corev1.IPFamily
	for _, c := range a.CIDRs {
		out = append(out, familyOf(c.Addr()))
	}
	return out
}

// Primary is the family of the first range.
func (a *Allocator) Primary() corev1.IPFamily { return familyOf(a.CIDRs[0].Addr()) }

// families fills in ipFamilyPolicy and ipFamilies, from the addresses asked for and from what the cluster has
// (https://kubernetes.io/docs/concepts/services-networking/dual-stack/#services). What asks for no other families than
// it has keeps them, also when the cluster has more or fewer by now.
func (a *Allocator) families(s, old *corev1.Service) error {
	if !core.NeedsClusterIP(s) || keepsFamilies(s, old) {
		return nil
	}
	spec := &s.Spec
	anyEndpoints := core.Headless(s) && len(spec.Selector) == 0
	if spec.IPFamilyPolicy == nil {
		p := corev1.IPFamilyPolicySingleStack
		switch {
		case old != nil && old.Spec.IPFamilyPolicy != nil:
			p = *old.Spec.IPFamilyPolicy
		case anyEndpoints:
			p = corev1.IPFamilyPolicyRequireDualStack
		}
		spec.IPFamilyPolicy = &p
	}
	if errs := core.ValidateClusterIPs(s, old); len(errs) > 0 {
		return invalid(s, errs)
	}
	have := a.configured()
	if errs := append(policyFits(s, old), inferFamilies(s, have)...); len(errs) > 0 {
		return invalid(s, errs)
	}
	single := *spec.IPFamilyPolicy == corev1.IPFamilyPolicySingleStack
	if !anyEndpoints { // a headless service without selector may name endpoints of any family
		if errs := supported(spec, have); len(errs) > 0 {
			return invalid(s, errs)
		}
	}
	if len(spec.IPFamilies) == 0 {
		spec.IPFamilies = []corev1.IPFamily{have[0]}
	}
	if len(spec.IPFamilies) == 1 && !single && (anyEndpoints || len(have) == 2) {
		spec.IPFamilies = append(slices.Clone(spec.IPFamilies), otherFamily(spec.IPFamilies[0]))
	}
	return nil
}

// keepsFamilies reports whether a service that prefers two families still does, and asks for none that it hasn't got.
func keepsFamilies(s, old *corev1.Service) bool {
	prefers := func(p *corev1.IPFamilyPolicy) bool { return *p == corev1.IPFamilyPolicyPreferDualStack }
	return old != nil && s.Spec.Type == old.Spec.Type && s.Spec.IPFamilyPolicy != nil &&
		prefers(s.Spec.IPFamilyPolicy) &&
		(old.Spec.IPFamilyPolicy == nil || prefers(old.Spec.IPFamilyPolicy)) &&
		slices.Equal(s.Spec.ClusterIPs, old.Spec.ClusterIPs) && slices.Equal(s.Spec.IPFamilies, old.Spec.IPFamilies)
}

// policyFits checks the policy against the lists. A change to one family shortens lists that were left as they were;
// any other way to shorten them has to be said.
func policyFits(s, old *corev1.Service) field.ErrorList {
	var errs field.ErrorList
	spec := &s.Spec
	refuse := func(when bool, format string, what string) {
		if when {
			errs = append(errs, field.Invalid(field.NewPath("spec", "ipFamilyPolicy"), spec.IPFamilyPolicy,
				fmt.Sprintf(format, what)))
		}
	}
	if *spec.IPFamilyPolicy != corev1.IPFamilyPolicySingleStack {
		if old != nil {
			const release = "must be 'SingleStack' to release the secondary %s"
			refuse(len(spec.ClusterIPs) == 1 && len(old.Spec.ClusterIPs) == 2, release, "cluster IP")
			refuse(len(spec.IPFamilies) == 1 && len(old.Spec.IPFamilies) == 2, release, "IP family")
		}
		return errs
	}
	if old != nil {
		if len(spec.ClusterIPs) > 1 && slices.Equal(spec.ClusterIPs, old.Spec.ClusterIPs) {
			spec.ClusterIPs = slices.Clone(spec.ClusterIPs[:1])
		}
		if len(spec.IPFamilies) > 1 && slices.Equal(spec.IPFamilies, old.Spec.IPFamilies) {
			spec.IPFamilies = slices.Clone(spec.IPFamilies[:1])
		}
	}
	const several = "must be 'RequireDualStack' or 'PreferDualStack' when multiple %s are specified"
	refuse(len(spec.ClusterIPs) == 2, several, "cluster IPs")
	refuse(len(spec.IPFamilies) == 2, several, "IP families")
	return errs
}

// inferFamilies takes the families of the addresses that are given.
func inferFamilies(s *corev1.Service, have []corev1.IPFamily) field.ErrorList {
	var errs field.ErrorList
	spec := &s.Spec
	for i, text := range spec.ClusterIPs {
		if text == corev1.ClusterIPNone || i < len(spec.IPFamilies) {
			continue
		}
		f := corev1.IPv4Protocol
		if netutils.IsIPv6String(text) {
			f = corev1.IPv6Protocol
		}
		if !slices.Contains(have, f) {
			errs = append(errs, field.Invalid(field.NewPath("spec", "clusterIPs").Index(i), spec.ClusterIPs,
				fmt.Sprintf("%s is not configured on this cluster", f)))
			continue
		}
		spec.IPFamilies = append(slices.Clone(spec.IPFamilies), f)
	}
	return errs
}

func supported(spec *corev1.ServiceSpec, have []corev1.IPFamily) field.ErrorList {
	var errs field.ErrorList
	if *spec.IPFamilyPolicy == corev1.IPFamilyPolicyRequireDualStack && len(have) < 2 {
		errs = append(errs, field.Invalid(field.NewPath("spec", "ipFamilyPolicy"), spec.IPFamilyPolicy,
			"this cluster is not configured for dual-stack services"))
	}
	for i, f := range spec.IPFamilies {
		if !slices.Contains(have, f) {
			errs = append(errs, field.Invalid(field.NewPath("spec", "ipFamilies").Index(i), f,
				"not configured on this cluster"))
		}
	}
	return errs
}

func invalid(s *corev1.Service, errs field.ErrorList) error {
	return apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Service").GroupKind(), s.Name, errs)
}
