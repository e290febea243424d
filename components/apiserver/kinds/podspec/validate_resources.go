package podspec

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	resourcehelper "k8s.io/component-helpers/resource"

	"quintet.dev/quintet/internal/resources"
)

func graceText(grace *int64) string {
	if grace == nil {
		return "<nil>"
	}
	return strconv.FormatInt(*grace, 10)
}

// validateResources checks limits and requests; old is what they are part of as it was. claims are the pod's resource
// claims; name checks one resource's name.
func validateResources(r *corev1.ResourceRequirements, old *oldState, claims sets.Set[string], at *field.Path,
	name func(corev1.ResourceName, *field.Path) field.ErrorList) field.ErrorList {
	var errs field.ErrorList
	limits, requests := at.Child("limits"), at.Child("requests")
	compute, huge := false, false
	note := func(n corev1.ResourceName) {
		compute = compute || n == corev1.ResourceCPU || n == corev1.ResourceMemory
		huge = huge || hugePages(n)
	}
	for _, n := range sortedKeys(r.Limits) {
		q := r.Limits[n]
		p := limits.Key(string(n))
		errs = append(errs, name(n, p)...)
		errs = append(errs, Quantity(n, q, p)...)
		errs = append(errs, old.pages(n, q, p)...)
		note(n)
	}
	for _, n := range sortedKeys(r.Requests) {
		q := r.Requests[n]
		p := requests.Key(string(n))
		errs = append(errs, name(n, p)...)
		errs = append(errs, Quantity(n, q, p)...)
		if limit, ok := r.Limits[n]; ok {
			if limit.Cmp(q) != 0 && !Overcommit(n) {
				errs = append(errs, field.Invalid(requests, q.String(),
					fmt.Sprintf("must be equal to %s limit of %s", n, limit.String())))
			} else if q.Cmp(limit) > 0 {
				errs = append(errs, field.Invalid(requests, q.String(),
					fmt.Sprintf("must be less than or equal to %s limit of %s", n, limit.String())))
			}
		} else if !Overcommit(n) {
			errs = append(errs, field.Required(limits, "Limit must be set for non overcommitable resources"))
		}
		errs = append(errs, old.pages(n, q, p)...)
		note(n)
	}
	if huge && !compute {
		errs = append(errs, field.Forbidden(at, "HugePages require cpu or memory"))
	}
	return append(errs, validateClaimRefs(r.Claims, claims, at.Child("claims"))...)
}

// Overhead checks what a pod takes besides its containers.
func Overhead(list corev1.ResourceList, at *field.Path) field.ErrorList {
	return validateOverhead(list, nil, at)
}

func validateOverhead(list corev1.ResourceList, old *oldState, at *field.Path) field.ErrorList {
	return validateResources(&corev1.ResourceRequirements{Limits: list}, old, nil, at, ContainerResource)
}

// validatePodResources checks the resources of the pod as a whole (KEP-2837).
func validatePodResources(s *corev1.PodSpec, old *oldState, claims sets.Set[string], at *field.Path) field.ErrorList {
	r := s.Resources
	if r == nil {
		return nil
	}
	if isWindows(s) {
		return field.ErrorList{field.Forbidden(at, "may not be set for a windows pod")}
	}
	var errs field.ErrorList
	if r.Claims != nil {
		errs = append(errs, field.Forbidden(at.Child("claims"), "claims may not be set for Resources at pod-level"))
	}
	errs = append(errs, validateResources(r, old, claims, at, podResource)...)
	pod := &corev1.Pod{Spec: *s}
	requests := resourcehelper.AggregateContainerRequests(pod, resourcehelper.PodResourcesOptions{})
	errs = append(errs, coverage(r.Requests, requests, "requests", func(corev1.ResourceName) bool { return true },
		at)...)
	limits := resourcehelper.AggregateContainerLimits(pod, resourcehelper.PodResourcesOptions{})
	errs = append(errs, coverage(r.Limits, limits, "limits", hugePages, at)...)
	for i := range s.Containers {
		own := s.Containers[i].Resources.Limits
		for _, n := range sortedKeys(own) {
			limit := own[n]
			if q, ok := r.Limits[n]; ok && limit.Cmp(q) > 0 {
				errs = append(errs, field.Invalid(at.Child("containers").Index(i).Key(string(n)).Child("limits"),
					limit.String(),
					"must be less than or equal to pod limits of "+q.String()))
			}
		}
	}
	return errs
}

// coverage checks that what the pod has is enough for what its containers have together, for those resources of which
// limits can't be shared.
func coverage(have, sum corev1.ResourceList, what string, of func(corev1.ResourceName) bool,
	at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, n := range sortedKeys(sum) {
		q, ok := have[n]
		if all := sum[n]; ok && of(n) && all.Cmp(q) > 0 {
			errs = append(errs, field.Invalid(at.Child(what).Key(string(n)), q.String(),
				fmt.Sprintf("must be greater than or equal to aggregate container %s of %s", what, all.String())))
		}
	}
	return errs
}

// Quantity checks the amount of a resource: not negative, and whole where halves make no sense.
func Quantity(name corev1.ResourceName, q resource.Quantity, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if q.Sign() < 0 {
		errs = append(errs, field.Invalid(at, q.String(), "must be greater than or equal to 0"))
	}
	if integer(name) && q.MilliValue()%1000 != 0 {
		errs = append(errs, field.Invalid(at, q.String(), "must be an integer"))
	}
	return errs
}

func integer(n corev1.ResourceName) bool {
	switch n {
	case corev1.ResourcePods, corev1.ResourceQuotas, corev1.ResourceServices, corev1.ResourceReplicationControllers,
		corev1.ResourceSecrets, corev1.ResourceConfigMaps, corev1.ResourcePersistentVolumeClaims,
		corev1.ResourceServicesNodePorts, corev1.ResourceServicesLoadBalancers:
		return true
	}
	return resources.Extended(n)
}

func hugePages(n corev1.ResourceName) bool {
	return strings.HasPrefix(string(n), corev1.ResourceHugePagesPrefix)
}

// Overcommit reports whether the request of a resource may be below its limit.
func Overcommit(n corev1.ResourceName) bool { return resources.Native(n) && !hugePages(n) }

// pages checks an amount of huge pages.
func (b *oldState) pages(n corev1.ResourceName, q resource.Quantity, at *field.Path) field.ErrorList {
	if !hugePages(n) || wholePages(n, q) || b.had(brokenPages) {
		return nil
	}
	return field.ErrorList{field.Invalid(at, q.String(),
		fmt.Sprintf("%s is not positive integer multiple of %s", q.String(), string(n)))}
}

func wholePages(n corev1.ResourceName, q resource.Quantity) bool {
	size, err := resource.ParseQuantity(strings.TrimPrefix(string(n), corev1.ResourceHugePagesPrefix))
	return err == nil && size.Sign() > 0 && size.MilliValue()%1000 == 0 && q.Value()%size.Value() == 0
}

// QualifiedResource checks the name of a resource in general.
func QualifiedResource(n corev1.ResourceName, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range utilvalidation.IsQualifiedName(string(n)) {
		errs = append(errs, field.Invalid(at, n, msg))
	}
	if len(errs) == 0 && !strings.Contains(string(n), "/") && !standard(n) {
		errs = append(errs, field.Invalid(at, n, "must be a standard resource type or fully qualified"))
	}
	return errs
}

func standard(n corev1.ResourceName) bool {
	switch n {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, corev1.ResourceStorage,
		corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory, corev1.ResourceRequestsEphemeralStorage,
		corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory, corev1.ResourceLimitsEphemeralStorage,
		corev1.ResourcePods, corev1.ResourceQuotas, corev1.ResourceServices, corev1.ResourceReplicationControllers,
		corev1.ResourceSecrets, corev1.ResourceConfigMaps, corev1.ResourcePersistentVolumeClaims,
		corev1.ResourceRequestsStorage, corev1.ResourceServicesNodePorts, corev1.ResourceServicesLoadBalancers:
		return true
	}
	return hugePages(n) || strings.HasPrefix(string(n), corev1.ResourceRequestsHugePagesPrefix)
}

// ContainerResource checks the name of what a container asks for.
func ContainerResource(n corev1.ResourceName, at *field.Path) field.ErrorList {
	errs := QualifiedResource(n, at)
	switch {
	case !strings.Contains(string(n), "/"):
		if n != corev1.ResourceCPU && n != corev1.ResourceMemory && n != corev1.ResourceEphemeralStorage &&
			!hugePages(n) {
			errs = append(errs, field.Invalid(at, n, "must be a standard resource for containers"))
		}
	case !resources.Native(n) && !resources.Extended(n):
		errs = append(errs, field.Invalid(at, n, "doesn't follow extended resource name standard"))
	}
	return errs
}

func podResource(n corev1.ResourceName, at *field.Path) field.ErrorList {
	if errs := QualifiedResource(n, at); len(errs) > 0 || resourcehelper.IsSupportedPodLevelResource(n) {
		return errs
	}
	return field.ErrorList{field.NotSupported(at, n, sets.List(resourcehelper.SupportedPodLevelResources()))}
}

func validateResizePolicy(list []corev1.ContainerResizePolicy, pod corev1.RestartPolicy,
	path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := sets.New[corev1.ResourceName]()
	for i, p := range list {
		if seen.Has(p.ResourceName) {
			errs = append(errs, field.Duplicate(path.Index(i), p.ResourceName))
		}
		seen.Insert(p.ResourceName)
		errs = append(errs, enum(p.ResourceName, path, corev1.ResourceCPU, corev1.ResourceMemory)...)
		errs = append(errs, enum(p.RestartPolicy, path, corev1.NotRequired, corev1.RestartContainer)...)
		if pod == corev1.RestartPolicyNever && p.RestartPolicy != corev1.NotRequired {
			errs = append(errs, field.Invalid(path, p.RestartPolicy,
				"must be 'NotRequired' when pod `restartPolicy` is 'Never'"))
		}
	}
	return errs
}
