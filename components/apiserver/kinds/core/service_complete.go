package core

import (
	corev1 "k8s.io/api/core/v1"
	netutils "k8s.io/utils/net"
)

// CompleteService fills in what was not stored before services had several addresses and families, and drops what
// external names were once defaulted to. primary is the family of services that ask for none.
func CompleteService(s *corev1.Service, primary corev1.IPFamily) {
	SyncClusterIPs(s, nil)
	if NeedsClusterIP(s) && len(s.Spec.IPFamilies) == 0 {
		completeFamilies(s, primary)
	}
	CanonicalService(s)
}

func completeFamilies(service *corev1.Service, primary corev1.IPFamily) {
	s := &service.Spec
	var families []corev1.IPFamily
	switch {
	case !Headless(service):
		for _, ip := range s.ClusterIPs {
			families = append(families, familyOf(ip))
		}
	case len(s.Selector) == 0: // the families of its endpoints are unknown
		families = []corev1.IPFamily{primary, corev1.IPv6Protocol}
		if primary == corev1.IPv6Protocol {
			families[1] = corev1.IPv4Protocol
		}
	default:
		families = []corev1.IPFamily{primary}
	}
	policy := corev1.IPFamilyPolicySingleStack
	switch len(families) {
	case 0:
		return
	case maxFamilies:
		policy = corev1.IPFamilyPolicyRequireDualStack
	}
	s.IPFamilies, s.IPFamilyPolicy = families, &policy
}

func familyOf(ip string) corev1.IPFamily {
	if netutils.IsIPv6String(ip) {
		return corev1.IPv6Protocol
	}
	return corev1.IPv4Protocol
}
