package podspec

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

// defaultPodResources fills in the requests (and the limits of huge pages) of a pod that has resources of its own:
// first from what its containers ask for, then from its limits.
func defaultPodResources(pod *corev1.Pod) {
	r := pod.Spec.Resources
	if len(r.Requests) == 0 && len(r.Limits) == 0 {
		return
	}
	sum := resourcehelper.AggregateContainerRequests(pod, resourcehelper.PodResourcesOptions{})
	for name, q := range sum {
		if _, set := r.Requests[name]; set || !resourcehelper.IsSupportedPodLevelResource(name) {
			continue
		}
		if strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
			if _, set := r.Limits[name]; set {
				continue // the request follows the limit below
			}
			if r.Limits == nil {
				r.Limits = corev1.ResourceList{}
			}
			r.Limits[name] = q.DeepCopy()
			continue
		}
		if r.Requests == nil {
			r.Requests = corev1.ResourceList{}
		}
		r.Requests[name] = q.DeepCopy()
	}
	for name, q := range r.Limits {
		if _, set := r.Requests[name]; set || !resourcehelper.IsSupportedPodLevelResource(name) {
			continue
		}
		if r.Requests == nil {
			r.Requests = corev1.ResourceList{}
		}
		r.Requests[name] = q.DeepCopy()
	}
}
