package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
)

// maxFamilies is how many IP families there are.
const maxFamilies = 2

// validateClusterIPs checks clusterIP, clusterIPs, ipFamilies and ipFamilyPolicy against each other.
func validateClusterIPs(spec *corev1.ServiceSpec, path *field.Path) field.ErrorList {
	if spec.Type == corev1.ServiceTypeExternalName {
		return nil
	}
	var errs field.ErrorList
	ips := path.Child("clusterIPs")
	if len(spec.ClusterIPs) > 0 && spec.ClusterIPs[0] != spec.ClusterIP {
		if spec.ClusterIP == "" {
			errs = append(errs, field.Invalid(ips, spec.ClusterIPs, "must be empty when `clusterIP` is not specified"))
		} else {
			errs = append(errs, field.Invalid(ips, spec.ClusterIPs, "first value must match `clusterIP`"))
		}
	}
	if p := spec.IPFamilyPolicy; p != nil {
		errs = append(errs, checks.OneOf(*p, path.Child("ipFamilyPolicy"), corev1.IPFamilyPolicySingleStack,
			corev1.IPFamilyPolicyPreferDualStack, corev1.IPFamilyPolicyRequireDualStack)...)
	}
	errs = append(errs, validateFamilies(spec, path.Child("ipFamilies"))...)
	if len(spec.ClusterIPs) > maxFamilies {
		errs = append(errs, field.Invalid(ips, spec.ClusterIPs, "may only hold up to 2 values"))
	}
	seen := sets.New[string]()
	for i, ip := range spec.ClusterIPs {
		at := ips.Index(i)
		if ip == corev1.ClusterIPNone {
			if i != 0 || len(spec.ClusterIPs) > 1 {
				errs = append(errs, field.Invalid(ips, spec.ClusterIPs, "'None' must be the first and only value"))
			}
			continue
		}
		if more := utilvalidation.IsValidIPForLegacyField(at, ip, false, nil); len(more) > 0 {
			errs = append(errs, more...)
			continue
		}
		if seen.Has(ip) {
			errs = append(errs, field.Duplicate(at, ip))
		}
		seen.Insert(ip)
		if i < len(spec.IPFamilies) && netutils.IsIPv6String(ip) != (spec.IPFamilies[i] == corev1.IPv6Protocol) {
			errs = append(errs, field.Invalid(at, ip, "expected an "+string(spec.IPFamilies[i])+" value as indicated by `ipFamilies`"))
		}
	}
	if len(spec.ClusterIPs) == maxFamilies && len(seen) == maxFamilies {
		if dual, err := netutils.IsDualStackIPStrings(spec.ClusterIPs); err == nil && !dual {
			errs = append(errs, field.Invalid(ips, spec.ClusterIPs, "may specify no more than one IP for each IP family"))
		}
	}
	return errs
}

func validateFamilies(spec *corev1.ServiceSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := sets.New[corev1.IPFamily]()
	for i, f := range spec.IPFamilies {
		if f != corev1.IPv4Protocol && f != corev1.IPv6Protocol {
			errs = append(errs, field.NotSupported(path.Index(i), f, []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}))
		}
		if seen.Has(f) {
			errs = append(errs, field.Duplicate(path.Index(i), f))
		}
		seen.Insert(f)
	}
	return errs
}

// ValidateServiceUpdate checks a change: the addresses that clients know stay.
func ValidateServiceUpdate(new, old *corev1.Service) field.ErrorList {
	errs := ValidateService(new)
	path := field.NewPath("spec")
	if NeedsClusterIP(new) && NeedsClusterIP(old) {
		errs = append(errs, keptAddresses(&new.Spec, &old.Spec, path)...)
	}
	if old.Spec.Type == corev1.ServiceTypeLoadBalancer && new.Spec.Type == corev1.ServiceTypeLoadBalancer {
		is, was := new.Spec.LoadBalancerClass, old.Spec.LoadBalancerClass
		if (is == nil) != (was == nil) || is != nil && *is != *was {
			errs = append(errs, field.Invalid(path.Child("loadBalancerClass"), is, "may not change once set"))
		}
	}
	return errs
}

func keptAddresses(new, old *corev1.ServiceSpec, path *field.Path) field.ErrorList {
	const kept = "may not change once set"
	var errs field.ErrorList
	ips := path.Child("clusterIPs")
	switch {
	case len(old.ClusterIPs) > 0 && len(new.ClusterIPs) == 0:
		errs = append(errs, field.Invalid(ips.Index(0), new.ClusterIPs, "primary clusterIP can not be unset"))
	case len(old.ClusterIPs) > 0 && new.ClusterIPs[0] != old.ClusterIPs[0]:
		errs = append(errs, field.Invalid(ips.Index(0), new.ClusterIPs, kept))
	}
	if len(old.ClusterIPs) == maxFamilies {
		single := new.IPFamilyPolicy != nil && *new.IPFamilyPolicy == corev1.IPFamilyPolicySingleStack
		switch {
		case len(new.ClusterIPs) == maxFamilies && new.ClusterIPs[1] != old.ClusterIPs[1]:
			errs = append(errs, field.Invalid(ips.Index(1), new.ClusterIPs, kept))
		case len(new.ClusterIPs) == 1 && !single:
			errs = append(errs, field.Invalid(path.Child("ipFamilyPolicy"), new.IPFamilyPolicy,
				"must be set to 'SingleStack' when releasing the secondary clusterIP"))
		}
	}
	if len(old.IPFamilies) > 0 && len(new.IPFamilies) > 0 && new.IPFamilies[0] != old.IPFamilies[0] {
		errs = append(errs, field.Invalid(path.Child("ipFamilies").Index(0), new.IPFamilies[0], kept))
	}
	return errs
}
