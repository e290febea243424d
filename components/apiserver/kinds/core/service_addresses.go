package core

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
)

// maxFamilies is how many IP families there are.
const maxFamilies = 2

// ValidateClusterIPs checks clusterIP, clusterIPs, ipFamilies and ipFamilyPolicy against each other, as far as that can
// be told before anything is allocated. old is nil on create.
func ValidateClusterIPs(s, old *corev1.Service) field.ErrorList {
	if old == nil {
		old = &corev1.Service{}
	}
	return validateClusterIPs(s, old, field.NewPath("spec"))
}

func validateClusterIPs(s, old *corev1.Service, path *field.Path) field.ErrorList {
	spec := &s.Spec
	if spec.Type == corev1.ServiceTypeExternalName {
		return nil
	}
	var errs field.ErrorList
	ips := path.Child("clusterIPs")
	switch {
	case spec.ClusterIP == "" && len(spec.ClusterIPs) > 0:
		errs = append(errs, field.Invalid(ips, spec.ClusterIPs, "must be empty when `clusterIP` is not specified"))
	case spec.ClusterIP != "" && len(spec.ClusterIPs) == 0:
		errs = append(errs, field.Required(ips, ""))
	case spec.ClusterIP != "" && spec.ClusterIPs[0] != spec.ClusterIP:
		errs = append(errs, field.Invalid(ips, spec.ClusterIPs, "first value must match `clusterIP`"))
	}
	errs = append(errs, validateFamilies(spec, path.Child("ipFamilies"))...)
	if p := spec.IPFamilyPolicy; p != nil {
		errs = append(errs, checks.In(*p, path.Child("ipFamilyPolicy"), corev1.IPFamilyPolicyPreferDualStack,
			corev1.IPFamilyPolicyRequireDualStack, corev1.IPFamilyPolicySingleStack)...)
	}
	more, wellFormed := validateEachIP(spec.ClusterIPs, old.Spec.ClusterIPs, ips)
	errs = append(errs, more...)
	if len(spec.ClusterIPs) > maxFamilies {
		errs = append(errs, field.Invalid(ips, spec.ClusterIPs, "may only hold up to 2 values"))
	}
	if !wellFormed {
		return errs
	}
	if len(spec.ClusterIPs) > 1 {
		if dual, err := netutils.IsDualStackIPStrings(spec.ClusterIPs); err != nil || !dual {
			errs = append(errs, field.Invalid(ips, spec.ClusterIPs,
				"may specify no more than one IP for each IP family"))
		}
	}
	if Headless(s) {
		return errs
	}
	for i, ip := range spec.ClusterIPs[:min(len(spec.ClusterIPs), len(spec.IPFamilies))] {
		if f := spec.IPFamilies[i]; f == corev1.IPv4Protocol && netutils.IsIPv6String(ip) ||
			f == corev1.IPv6Protocol && !netutils.IsIPv6String(ip) {
			errs = append(errs, field.Invalid(ips.Index(i), ip,
				fmt.Sprintf("expected an %s value as indicated by `ipFamilies[%d]`", f, i)))
		}
	}
	return errs
}

func validateEachIP(list, known []string, path *field.Path) (errs field.ErrorList, wellFormed bool) {
	for i, ip := range list {
		if i > 0 || ip != corev1.ClusterIPNone {
			errs = append(errs, utilvalidation.IsValidIPForLegacyField(path.Index(i), ip, true, known)...)
		} else if len(list) > 1 {
			errs = append(errs, field.Invalid(path, list, "'None' must be the first and only value"))
		}
	}
	return errs, len(errs) == 0
}

func validateFamilies(spec *corev1.ServiceSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := sets.New[corev1.IPFamily]()
	for i, f := range spec.IPFamilies {
		errs = append(errs, checks.In(f, path.Index(i), corev1.IPv4Protocol, corev1.IPv6Protocol)...)
		if seen.Has(f) {
			errs = append(errs, field.Duplicate(path.Index(i), f))
		}
		seen.Insert(f)
	}
	return errs
}

// validateAddressChange checks that addresses stay; only the second one may come and go, and with it its family.
func validateAddressChange(new, old *corev1.Service, path *field.Path) field.ErrorList {
	if !NeedsClusterIP(new) || !NeedsClusterIP(old) || Headless(new) && Headless(old) {
		return nil
	}
	var errs field.ErrorList
	ips, policy := path.Child("clusterIPs"), path.Child("ipFamilyPolicy")
	is, was := new.Spec.ClusterIPs, old.Spec.ClusterIPs
	single := new.Spec.IPFamilyPolicy != nil && *new.Spec.IPFamilyPolicy == corev1.IPFamilyPolicySingleStack
	first := len(is) > 0 && len(was) > 0 && is[0] != was[0]
	switch {
	case len(is) == len(was):
		for i := range was {
			if is[i] != was[i] {
				errs = append(errs, field.Invalid(ips.Index(i), is, keptForever))
			}
		}
	case len(is) == 0:
		errs = append(errs, field.Invalid(ips.Index(0), is, "primary clusterIP can not be unset"))
	case first:
		errs = append(errs, field.Invalid(ips.Index(0), is, keptForever))
	}
	if len(is) == 1 && len(was) > 1 && !single {
		errs = append(errs, field.Invalid(policy, new.Spec.IPFamilyPolicy,
			"must be set to 'SingleStack' when releasing the secondary clusterIP"))
	}
	if Headless(new) || Headless(old) {
		return errs
	}
	return append(errs, validateFamilyChange(new, old, path, single)...)
}

func validateFamilyChange(new, old *corev1.Service, path *field.Path, single bool) field.ErrorList {
	var errs field.ErrorList
	at := path.Child("ipFamilies").Index(0)
	is, was := new.Spec.IPFamilies, old.Spec.IPFamilies
	if len(is) == len(was) {
		for i := range was {
			if is[i] != was[i] {
				errs = append(errs, field.Invalid(at, is, keptForever))
			}
		}
		return errs
	}
	if len(is) < len(was) && len(new.Spec.ClusterIPs) == 0 {
		errs = append(errs, field.Invalid(at, is, "primary ipFamily can not be unset"))
	}
	if len(is) > 0 && len(was) > 0 && is[0] != was[0] {
		errs = append(errs, field.Invalid(at, new.Spec.ClusterIPs, keptForever)) // the value is upstream's
	}
	if len(is) == 1 && len(was) > 1 && !single {
		errs = append(errs, field.Invalid(path.Child("ipFamilyPolicy"), new.Spec.IPFamilyPolicy,
			"must be set to 'SingleStack' when releasing the secondary ipFamily"))
	}
	return errs
}
