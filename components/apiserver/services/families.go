package services

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

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

func headless(s *corev1.Service) bool {
	return s.Spec.ClusterIP == corev1.ClusterIPNone || len(s.Spec.ClusterIPs) > 0 && s.Spec.ClusterIPs[0] == corev1.ClusterIPNone
}

// families fills in ipFamilyPolicy and ipFamilies, from the addresses asked for and from what the cluster has
// (https://kubernetes.io/docs/concepts/services-networking/dual-stack/#services).
func (a *Allocator) families(s, old *corev1.Service) error {
	if !core.NeedsClusterIP(s) {
		return nil
	}
	spec := &s.Spec
	have := a.configured()
	a.downgrade(s, old)
	if errs := inferFamilies(s); len(errs) > 0 {
		return invalid(s, errs)
	}
	if errs := supported(spec, have); len(errs) > 0 {
		return invalid(s, errs)
	}
	// A headless service without selector may name endpoints of any family.
	if headless(s) && len(spec.Selector) == 0 {
		if spec.IPFamilyPolicy == nil {
			p := corev1.IPFamilyPolicyRequireDualStack
			if len(spec.IPFamilies) == 1 {
				p = corev1.IPFamilyPolicySingleStack
			}
			spec.IPFamilyPolicy = &p
		}
		if len(spec.IPFamilies) == 0 {
			spec.IPFamilies = []corev1.IPFamily{have[0]}
		}
		if len(spec.IPFamilies) == 1 && *spec.IPFamilyPolicy != corev1.IPFamilyPolicySingleStack {
			spec.IPFamilies = append(slices.Clone(spec.IPFamilies), otherFamily(spec.IPFamilies[0]))
		}
		return nil
	}
	if spec.IPFamilyPolicy == nil {
		p := corev1.IPFamilyPolicySingleStack
		if len(spec.ClusterIPs) == 2 || len(spec.IPFamilies) == 2 {
			p = corev1.IPFamilyPolicyRequireDualStack
		}
		spec.IPFamilyPolicy = &p
	}
	if *spec.IPFamilyPolicy == corev1.IPFamilyPolicyRequireDualStack && len(have) < 2 {
		return invalid(s, field.ErrorList{field.Invalid(field.NewPath("spec", "ipFamilyPolicy"), *spec.IPFamilyPolicy,
			"this cluster is not configured for dual-stack services")})
	}
	if len(spec.IPFamilies) == 0 {
		spec.IPFamilies = []corev1.IPFamily{have[0]}
	}
	if len(spec.IPFamilies) == 1 && *spec.IPFamilyPolicy != corev1.IPFamilyPolicySingleStack && len(have) == 2 {
		spec.IPFamilies = append(slices.Clone(spec.IPFamilies), otherFamily(spec.IPFamilies[0]))
	}
	return nil
}

// downgrade drops the second family of a service that now wants one, if the client left the lists as they were.
func (a *Allocator) downgrade(s, old *corev1.Service) {
	spec := &s.Spec
	if old == nil || spec.IPFamilyPolicy == nil || *spec.IPFamilyPolicy != corev1.IPFamilyPolicySingleStack ||
		old.Spec.IPFamilyPolicy != nil && *old.Spec.IPFamilyPolicy == corev1.IPFamilyPolicySingleStack {
		return
	}
	if len(spec.ClusterIPs) == 2 && slices.Equal(spec.ClusterIPs, old.Spec.ClusterIPs) {
		spec.ClusterIPs = slices.Clone(spec.ClusterIPs[:1])
	}
	if len(spec.IPFamilies) == 2 && slices.Equal(spec.IPFamilies, old.Spec.IPFamilies) {
		spec.IPFamilies = slices.Clone(spec.IPFamilies[:1])
	}
}

// inferFamilies takes the families of the addresses that are given.
func inferFamilies(s *corev1.Service) field.ErrorList {
	var errs field.ErrorList
	spec := &s.Spec
	for i, text := range spec.ClusterIPs {
		ip, err := netip.ParseAddr(text)
		if err != nil {
			continue
		}
		f := familyOf(ip)
		switch {
		case i < len(spec.IPFamilies) && spec.IPFamilies[i] != f:
			errs = append(errs, field.Invalid(field.NewPath("spec", "clusterIPs").Index(i), text,
				"expected an "+string(spec.IPFamilies[i])+" value as indicated by `ipFamilies["+string(rune('0'+i))+"]`"))
		case i == len(spec.IPFamilies):
			spec.IPFamilies = append(slices.Clone(spec.IPFamilies), f)
		}
	}
	return errs
}

func supported(spec *corev1.ServiceSpec, have []corev1.IPFamily) field.ErrorList {
	if spec.ClusterIP == corev1.ClusterIPNone && len(spec.Selector) == 0 {
		return nil
	}
	var errs field.ErrorList
	for i, f := range spec.IPFamilies {
		if !slices.Contains(have, f) {
			errs = append(errs, field.Invalid(field.NewPath("spec", "ipFamilies").Index(i), f, "not configured on this cluster"))
		}
	}
	return errs
}

func invalid(s *corev1.Service, errs field.ErrorList) error {
	return apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Service").GroupKind(), s.Name, errs)
}
