package resourcequota

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	podresources "k8s.io/component-helpers/resource"

	"quintet.dev/quintet/internal/quotas"
)

// counted reports whether a request can change what is used.
func counted(a admission.Attributes) bool {
	resource, update := a.GetResource().GroupResource(), a.GetOperation() == admission.Update
	if quotas.Ignored(resource) {
		return false
	}
	switch a.GetSubresource() {
	case "":
	case "resize":
		return update && resource == corev1.Resource("pods")
	case "status": // which tells what a volume has got, and what it is getting
		return update && resource == corev1.Resource("persistentvolumeclaims")
	default:
		return false
	}
	if !update {
		return true
	}
	switch resource {
	case corev1.Resource("services"), corev1.Resource("persistentvolumeclaims"), resourcev1.Resource("resourceclaims"):
		return true
	}
	return ends(a.GetObject()) != ends(a.GetOldObject()) // what else an update may change of a pod costs nothing
}

// ends tells pods that end at a time that is known: quotas may be about these alone, or about all others.
func ends(obj runtime.Object) bool {
	terminating := corev1.ScopedResourceSelectorRequirement{ScopeName: corev1.ResourceQuotaScopeTerminating,
		Operator: corev1.ScopeSelectorOpExists}
	return quotas.Within(obj, &terminating)
}

// requirable are the resources that pods must name when a quota limits them.
var requirable = []corev1.ResourceName{
	corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory,
	corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory,
}

// checkRequired: what is not named can't be counted.
func checkRequired(obj runtime.Object, names []corev1.ResourceName) error {
	pod, ok := obj.(*corev1.Pod)
	if !ok || podresources.IsPodLevelResourcesSet(pod) {
		return nil // the pod names its resources as a whole
	}
	missing := map[corev1.ResourceName][]string{}
	for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			named := corev1.ResourceList{}
			quotas.AddCompute(named, containers[i].Resources.Requests, containers[i].Resources.Limits)
			for _, name := range names {
				if _, ok := named[name]; !ok && slices.Contains(requirable, name) {
					missing[name] = append(missing[name], containers[i].Name)
				}
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	var parts []string
	for name, containers := range missing {
		slices.Sort(containers)
		parts = append(parts, fmt.Sprintf("%s for: %s", name, strings.Join(containers, ",")))
	}
	slices.Sort(parts)
	return fmt.Errorf("must specify %s", strings.Join(parts, "; "))
}
