package core

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ServiceWarnings tells what of a service is deprecated or has no effect.
func ServiceWarnings(s, _ *corev1.Service) []string {
	var out []string
	spec, path := &s.Spec, field.NewPath("spec")
	headless := spec.Type == corev1.ServiceTypeClusterIP && Headless(s)
	external := spec.Type == corev1.ServiceTypeExternalName
	say := func(when bool, format string, args ...any) {
		if when {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	_, hints := s.Annotations[corev1.DeprecatedAnnotationTopologyAwareHints]
	say(hints, "annotation %s is deprecated, please use %s instead", corev1.DeprecatedAnnotationTopologyAwareHints,
		corev1.AnnotationTopologyMode)
	if !Headless(s) {
		for i, ip := range spec.ClusterIPs {
			out = append(out, utilvalidation.GetWarningsForIP(path.Child("clusterIPs").Index(i), ip)...)
		}
	}
	say(headless && spec.LoadBalancerIP != "", "spec.loadBalancerIP is ignored for headless services")
	say(headless && len(spec.ExternalIPs) > 0, "spec.externalIPs is ignored for headless services")
	say(headless && spec.SessionAffinity != corev1.ServiceAffinityNone,
		"spec.SessionAffinity is ignored for headless services")
	for i, ip := range spec.ExternalIPs {
		out = append(out, utilvalidation.GetWarningsForIP(path.Child("externalIPs").Index(i), ip)...)
	}
	say(len(spec.ExternalIPs) > 0 && !headless && !external,
		"spec.externalIPs is deprecated and may no longer be implemented in some clusters")
	if spec.LoadBalancerIP != "" {
		out = append(out, utilvalidation.GetWarningsForIP(path.Child("loadBalancerIP"), spec.LoadBalancerIP)...)
	}
	for i, cidr := range spec.LoadBalancerSourceRanges {
		out = append(out, utilvalidation.GetWarningsForCIDR(path.Child("loadBalancerSourceRanges").Index(i), cidr)...)
	}
	say(external && len(spec.ExternalIPs) > 0, "spec.externalIPs is ignored when spec.type is %q",
		corev1.ServiceTypeExternalName)
	say(!external && spec.ExternalName != "", "spec.externalName is ignored when spec.type is not %q",
		corev1.ServiceTypeExternalName)
	say(spec.TrafficDistribution != nil && *spec.TrafficDistribution == corev1.ServiceTrafficDistributionPreferClose,
		"spec.trafficDistribution: %q is deprecated; use %q", corev1.ServiceTrafficDistributionPreferClose,
		corev1.ServiceTrafficDistributionPreferSameZone)
	return out
}

// ServiceStatusWarnings tells of addresses that are not written as they should be.
func ServiceStatusWarnings(s, _ *corev1.Service) []string {
	var out []string
	path := field.NewPath("status", "loadBalancer", "ingress")
	for i, ingress := range s.Status.LoadBalancer.Ingress {
		if ingress.IP != "" {
			out = append(out, utilvalidation.GetWarningsForIP(path.Index(i), ingress.IP)...)
		}
	}
	return out
}
