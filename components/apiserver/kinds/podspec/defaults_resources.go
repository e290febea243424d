package podspec

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
)

// defaultPodResources fills in what a pod that has resources of its own leaves out (KEP-2837): limits of huge pages
// from those of its containers, and, where the pod has limits, requests from those of its containers and then from its
// limits.
func defaultPodResources(pod *corev1.Pod) {
	r := pod.Spec.Resources
	if len(r.Requests) == 0 && len(r.Limits) == 0 {
		return
	}
	for name, q := range resourcehelper.AggregateContainerLimits(pod, resourcehelper.PodResourcesOptions{}) {
		if _, set := r.Requests[name]; hugePages(name) && !set {
			setAmount(&r.Limits, name, q)
		}
	}
	if len(r.Limits) == 0 {
		return
	}
	for name, q := range resourcehelper.AggregateContainerRequests(pod, resourcehelper.PodResourcesOptions{}) {
		if !hugePages(name) && resourcehelper.IsSupportedPodLevelResource(name) {
			setAmount(&r.Requests, name, q)
		}
	}
	for name, q := range r.Limits {
		if resourcehelper.IsSupportedPodLevelResource(name) {
			setAmount(&r.Requests, name, q)
		}
	}
}

// setAmount puts an amount into a list that has none of the name.
func setAmount(list *corev1.ResourceList, name corev1.ResourceName, q resource.Quantity) {
	if _, set := (*list)[name]; set {
		return
	}
	if *list == nil {
		*list = corev1.ResourceList{}
	}
	(*list)[name] = q.DeepCopy()
}
