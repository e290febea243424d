package podspec

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
)

// dropDisabledStatus removes what belongs to features that are off: node allocatable resources of claims (KEP-5517),
// and what a volume of an image was resolved to (KEP-5365); unless old has it.
func dropDisabledStatus(new, old *corev1.PodStatus) {
	if len(old.NodeAllocatableResourceClaimStatuses) == 0 {
		new.NodeAllocatableResourceClaimStatuses = nil
	}
	if volumeStatuses(old, func(*corev1.VolumeMountStatus) {}) > 0 {
		return
	}
	volumeStatuses(new, func(m *corev1.VolumeMountStatus) { m.VolumeStatus = nil })
}

// volumeStatuses calls do with each mount, and counts those that tell of the image behind them.
func volumeStatuses(s *corev1.PodStatus, do func(*corev1.VolumeMountStatus)) int {
	n := 0
	for _, list := range [][]corev1.ContainerStatus{s.ContainerStatuses, s.InitContainerStatuses,
		s.EphemeralContainerStatuses} {
		for i := range list {
			for j := range list[i].VolumeMounts {
				m := &list[i].VolumeMounts[j]
				if m.VolumeStatus != nil && m.VolumeStatus.Image != nil {
					n++
				}
				do(m)
			}
		}
	}
	return n
}

// validateExtendedClaim checks which claim stands for the extended resources of a pod (KEP-5004).
func validateExtendedClaim(status *corev1.PodExtendedResourceClaimStatus, spec *corev1.PodSpec,
	path *field.Path) field.ErrorList {
	if status == nil {
		return nil
	}
	requests := map[string]corev1.ResourceList{}
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			requests[list[i].Name] = list[i].Resources.Requests
		}
	}
	var errs field.ErrorList
	mappings := path.Child("requestMappings")
	if len(status.RequestMappings) == 0 {
		errs = append(errs, field.Required(mappings, "at least one request mapping is required"))
	}
	seen := map[corev1.ContainerExtendedResourceRequest]bool{}
	for i, m := range status.RequestMappings {
		at := mappings.Index(i)
		asked, known := requests[m.ContainerName]
		if !known {
			errs = append(errs, field.Invalid(at.Child("containerName"), m.ContainerName,
				"must match the name of an entry in spec.initContainers.name or spec.containers.name"))
		} else if _, wanted := asked[corev1.ResourceName(m.ResourceName)]; !wanted {
			errs = append(errs, field.Invalid(at.Child("resourceName"), m.ResourceName,
				"must match the extended resource name of an entry in spec.initContainers.resources.requests or "+
					"spec.containers.resources.requests"))
		}
		errs = append(errs, problems(m.RequestName, path.Child("requestName"), checks.Label)...)
		if seen[m] {
			errs = append(errs, field.Duplicate(at.Child("containerName"), m.ContainerName),
				field.Duplicate(at.Child("resourceName"), m.ResourceName),
				field.Duplicate(at.Child("requestName"), m.RequestName))
		}
		seen[m] = true
	}
	if status.ResourceClaimName == "" {
		return append(errs, field.Required(path.Child("resourceClaimName"), ""))
	}
	return append(errs, problems(status.ResourceClaimName, path.Child("resourceClaimName"), checks.Subdomain)...)
}

// validateAllocated checks what is told of the health of devices (KEP-4680).
func validateAllocated(statuses []corev1.ContainerStatus, containers []corev1.Container,
	path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range statuses {
		for j := range statuses[i].AllocatedResourcesStatus {
			r, at := &statuses[i].AllocatedResourcesStatus[j], path.Index(i).Child("allocatedResourcesStatus").Index(j)
			for k := range containers {
				if containers[k].Name != statuses[i].Name {
					continue
				}
				if why := unasked(string(r.Name), &containers[k].Resources); why != "" {
					errs = append(errs, field.Invalid(at.Child("name"), r.Name, why))
				}
				break
			}
			errs = append(errs, validateHealth(r.Resources, at.Child("resources"))...)
		}
	}
	return errs
}

// unasked tells why a resource is none that a container has asked for.
func unasked(name string, resources *corev1.ResourceRequirements) string {
	if !strings.HasPrefix(name, "claim:") {
		if _, asked := resources.Requests[corev1.ResourceName(name)]; asked {
			return ""
		}
		return "must match one of the container's resource requests"
	}
	for _, c := range resources.Claims {
		own := "claim:" + c.Name
		if c.Request != "" {
			own += "/" + c.Request
		}
		if own == name {
			return ""
		}
	}
	return "must match one of the container's resource claims in a format 'claim:<claimName>/<request>' or " +
		"'claim:<claimName>' if request is empty"
}

func validateHealth(list []corev1.ResourceHealth, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[corev1.ResourceID]bool{}
	for i, r := range list {
		at := path.Index(i)
		errs = append(errs, supported(r.Health, at.Child("health"),
			corev1.ResourceHealthStatusHealthy, corev1.ResourceHealthStatusUnhealthy,
			corev1.ResourceHealthStatusUnknown)...)
		if r.Message != nil && *r.Message == "" {
			errs = append(errs, field.Required(at.Child("message"), "must be non-empty if specified"))
		} else if r.Message != nil && len(*r.Message) > corev1.ResourceHealthMessageMaxLength {
			errs = append(errs, field.TooLong(at.Child("message"), *r.Message, corev1.ResourceHealthMessageMaxLength))
		}
		if seen[r.ResourceID] {
			errs = append(errs, field.Duplicate(at.Child("resourceID"), r.ResourceID))
		}
		seen[r.ResourceID] = true
	}
	return errs
}

// noneAllocated refuses devices of ephemeral containers, which can't have any.
func noneAllocated(statuses []corev1.ContainerStatus, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range statuses {
		if len(statuses[i].AllocatedResourcesStatus) > 0 {
			errs = append(errs, field.Forbidden(path.Index(i).Child("allocatedResourcesStatus"),
				"must not be specified in container status"))
		}
	}
	return errs
}
