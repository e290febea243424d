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
)

func graceText(grace *int64) string {
	if grace == nil {
		return "<nil>"
	}
	return strconv.FormatInt(*grace, 10)
}

// validateResources checks limits and requests. claims are the pod's resource claims; name checks one resource's name.
func validateResources(r *corev1.ResourceRequirements, claims sets.Set[string], at *field.Path,
	name func(corev1.ResourceName, *field.Path) field.ErrorList) field.ErrorList {
	var errs field.ErrorList
	limits, requests := at.Child("limits"), at.Child("requests")
	compute, huge := false, false
	note := func(n corev1.ResourceName) {
		compute = compute || n == corev1.ResourceCPU || n == corev1.ResourceMemory
		huge = huge || hugePages(n)
	}
	for n, q := range r.Limits {
		p := limits.Key(string(n))
		errs = append(errs, name(n, p)...)
		errs = append(errs, Quantity(n, q, p)...)
		if hugePages(n) {
			errs = append(errs, wholePages(n, q, p)...)
		}
		note(n)
	}
	for n, q := range r.Requests {
		p := requests.Key(string(n))
		errs = append(errs, name(n, p)...)
		errs = append(errs, Quantity(n, q, p)...)
		if limit, ok := r.Limits[n]; ok {
			if limit.Cmp(q) != 0 && !overcommit(n) {
				errs = append(errs, field.Invalid(requests, q.String(), fmt.Sprintf("must be equal to %s limit of %s", n, limit.String())))
			} else if q.Cmp(limit) > 0 {
				errs = append(errs, field.Invalid(requests, q.String(), fmt.Sprintf("must be less than or equal to %s limit of %s", n, limit.String())))
			}
		} else if !overcommit(n) {
			errs = append(errs, field.Required(limits, "Limit must be set for non overcommitable resources"))
		}
		if hugePages(n) {
			errs = append(errs, wholePages(n, q, p)...)
		}
		note(n)
	}
	if huge && !compute {
		errs = append(errs, field.Forbidden(at, "HugePages require cpu or memory"))
	}
	return append(errs, validateClaimRefs(r.Claims, claims, at.Child("claims"))...)
}

func validateClaimRefs(list []corev1.ResourceClaim, known sets.Set[string], path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := sets.New[string]()
	for i, c := range list {
		at := path.Index(i)
		if c.Name == "" {
			errs = append(errs, field.Required(at.Child("name"), ""))
			continue
		}
		key := c.Name
		if c.Request != "" {
			key += "/" + c.Request
		}
		if seen.Has(c.Name) || seen.Has(key) {
			errs = append(errs, field.Duplicate(at, key))
		} else {
			seen.Insert(key)
		}
		if !known.Has(c.Name) {
			errs = append(errs, field.NotFound(at.Child("name"), c.Name))
		}
	}
	return errs
}

// validatePodResources checks the resources of the pod as a whole (KEP-2837).
func validatePodResources(s *corev1.PodSpec, at *field.Path) field.ErrorList {
	if s.Resources == nil {
		return nil
	}
	errs := validateResources(s.Resources, nil, at, podResource)
	if len(s.Resources.Claims) > 0 {
		errs = append(errs, field.Forbidden(at.Child("claims"), "claims cannot be set for Resources at pod-level"))
	}
	pod := &corev1.Pod{Spec: *s}
	for n, sum := range resourcehelper.AggregateContainerRequests(pod, resourcehelper.PodResourcesOptions{}) {
		if q, ok := s.Resources.Requests[n]; ok && sum.Cmp(q) > 0 {
			errs = append(errs, field.Invalid(at.Child("requests").Key(string(n)), q.String(),
				fmt.Sprintf("must be greater than or equal to aggregate container requests of %s", sum.String())))
		}
	}
	for _, cs := range [][]corev1.Container{s.InitContainers, s.Containers} {
		for i := range cs {
			for n, limit := range cs[i].Resources.Limits {
				if q, ok := s.Resources.Limits[n]; ok && limit.Cmp(q) > 0 {
					errs = append(errs, field.Invalid(at.Child("limits").Key(string(n)), q.String(),
						fmt.Sprintf("must be greater than or equal to limit of container %q of %s", cs[i].Name, limit.String())))
				}
			}
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
	return extended(n)
}

// native reports whether a resource is Kubernetes' own.
func native(n corev1.ResourceName) bool {
	return !strings.Contains(string(n), "/") || strings.Contains(string(n), corev1.ResourceDefaultNamespacePrefix)
}

func extended(n corev1.ResourceName) bool {
	return !native(n) && !strings.HasPrefix(string(n), corev1.DefaultResourceRequestsPrefix) &&
		len(utilvalidation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+string(n))) == 0
}

func hugePages(n corev1.ResourceName) bool {
	return strings.HasPrefix(string(n), corev1.ResourceHugePagesPrefix)
}

// overcommit reports whether the request of a resource may be below its limit.
func overcommit(n corev1.ResourceName) bool { return native(n) && !hugePages(n) }

func wholePages(n corev1.ResourceName, q resource.Quantity, at *field.Path) field.ErrorList {
	size, err := resource.ParseQuantity(strings.TrimPrefix(string(n), corev1.ResourceHugePagesPrefix))
	if err != nil || size.Sign() <= 0 || size.MilliValue()%1000 != 0 {
		return field.ErrorList{field.Invalid(at, q.String(), "page size is not positive integer")}
	}
	if q.Value()%size.Value() != 0 {
		return field.ErrorList{field.Invalid(at, q.String(), fmt.Sprintf("%s is not positive integer multiple of %s", q.String(), string(n)))}
	}
	return nil
}

// qualified checks the name of a resource in general.
func qualified(n corev1.ResourceName, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range utilvalidation.IsQualifiedName(string(n)) {
		errs = append(errs, field.Invalid(at, string(n), msg))
	}
	if len(errs) == 0 && !strings.Contains(string(n), "/") && !standard(n) {
		errs = append(errs, field.Invalid(at, string(n), "must be a standard resource type or fully qualified"))
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

// containerResource checks the name of what a container asks for.
func containerResource(n corev1.ResourceName, at *field.Path) field.ErrorList {
	errs := qualified(n, at)
	switch {
	case !strings.Contains(string(n), "/"):
		if n != corev1.ResourceCPU && n != corev1.ResourceMemory && n != corev1.ResourceEphemeralStorage && !hugePages(n) {
			errs = append(errs, field.Invalid(at, n, "must be a standard resource for containers"))
		}
	case !native(n) && !extended(n):
		errs = append(errs, field.Invalid(at, n, "doesn't follow extended resource name standard"))
	}
	return errs
}

func podResource(n corev1.ResourceName, at *field.Path) field.ErrorList {
	if resourcehelper.IsSupportedPodLevelResource(n) {
		return nil
	}
	supported := sets.List(resourcehelper.SupportedPodLevelResources())
	return field.ErrorList{field.NotSupported(at, n, supported)}
}

func validateResizePolicy(list []corev1.ContainerResizePolicy, pod corev1.RestartPolicy, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := sets.New[corev1.ResourceName]()
	for _, p := range list {
		if seen.Has(p.ResourceName) {
			errs = append(errs, field.Duplicate(path, p.ResourceName))
		}
		seen.Insert(p.ResourceName)
		switch p.ResourceName {
		case corev1.ResourceCPU, corev1.ResourceMemory:
		case "":
			errs = append(errs, field.Required(path, ""))
		default:
			errs = append(errs, field.NotSupported(path, p.ResourceName, []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}))
		}
		switch p.RestartPolicy {
		case corev1.NotRequired, corev1.RestartContainer:
		case "":
			errs = append(errs, field.Required(path, ""))
		default:
			errs = append(errs, field.NotSupported(path, p.RestartPolicy, []corev1.ResourceResizeRestartPolicy{corev1.NotRequired, corev1.RestartContainer}))
		}
		if pod == corev1.RestartPolicyNever && p.RestartPolicy != corev1.NotRequired {
			errs = append(errs, field.Invalid(path, p.RestartPolicy, "must be 'NotRequired' when `restartPolicy` is 'Never'"))
		}
	}
	return errs
}
