package resourcequota

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"

	"quintet.dev/quintet/internal/quotas"
)

// counted reports whether a request can change what is used.
func counted(a admission.Attributes) bool {
	resource := a.GetResource().GroupResource()
	if a.GetSubresource() != "" {
		return resource == corev1.Resource("pods") && a.GetSubresource() == "resize"
	}
	if a.GetOperation() == admission.Create {
		return true
	}
	return resource == corev1.Resource("services") || resource == corev1.Resource("persistentvolumeclaims")
}

// requirable are the resources that pods must name when a quota limits them.
var requirable = []corev1.ResourceName{
	corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory,
	corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory,
}

func requiredOf(a admission.Attributes, q *corev1.ResourceQuota) []corev1.ResourceName {
	if a.GetResource().GroupResource() != corev1.Resource("pods") {
		return nil
	}
	var names []corev1.ResourceName
	for _, name := range requirable {
		if _, ok := q.Status.Hard[name]; ok {
			names = append(names, name)
		}
	}
	return names
}

// checkRequired: what is not named can't be counted.
func checkRequired(obj runtime.Object, required []corev1.ResourceName) error {
	pod, ok := obj.(*corev1.Pod)
	if !ok || pod.Spec.Resources != nil {
		return nil // the pod names its resources as a whole
	}
	missing := map[corev1.ResourceName][]string{}
	for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			named := corev1.ResourceList{}
			quotas.AddCompute(named, containers[i].Resources.Requests, containers[i].Resources.Limits)
			for _, name := range required {
				if _, ok := named[name]; !ok {
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
