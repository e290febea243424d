package quotas

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	podresources "k8s.io/component-helpers/resource"
)

// About reports whether a quota is about an object: all its scopes must be.
func About(q *corev1.ResourceQuota, obj runtime.Object) bool {
	return !slices.ContainsFunc(Scopes(q),
		func(s corev1.ScopedResourceSelectorRequirement) bool { return !Within(obj, &s) })
}

// Scopes are those that a quota names, in either way.
func Scopes(q *corev1.ResourceQuota) []corev1.ScopedResourceSelectorRequirement {
	var all []corev1.ScopedResourceSelectorRequirement
	for _, s := range q.Spec.Scopes {
		all = append(all,
			corev1.ScopedResourceSelectorRequirement{ScopeName: s, Operator: corev1.ScopeSelectorOpExists})
	}
	if q.Spec.ScopeSelector != nil {
		all = append(all, q.Spec.ScopeSelector.MatchExpressions...)
	}
	return all
}

// Within reports whether an object is in a scope; only pods and claims are in any.
func Within(obj runtime.Object, s *corev1.ScopedResourceSelectorRequirement) bool {
	switch obj := obj.(type) {
	case *corev1.Pod:
		return podInScope(obj, s)
	case *corev1.PersistentVolumeClaim:
		return s.ScopeName == corev1.ResourceQuotaScopeVolumeAttributesClass && claimInScope(obj, s)
	}
	return false
}

func podInScope(pod *corev1.Pod, s *corev1.ScopedResourceSelectorRequirement) bool {
	switch s.ScopeName {
	case corev1.ResourceQuotaScopeTerminating:
		return pod.Spec.ActiveDeadlineSeconds != nil && *pod.Spec.ActiveDeadlineSeconds >= 0
	case corev1.ResourceQuotaScopeNotTerminating:
		return pod.Spec.ActiveDeadlineSeconds == nil
	case corev1.ResourceQuotaScopeBestEffort:
		return bestEffort(pod)
	case corev1.ResourceQuotaScopeNotBestEffort:
		return !bestEffort(pod)
	case corev1.ResourceQuotaScopePriorityClass:
		return among(pod.Spec.PriorityClassName, s)
	case corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		return crossesNamespaces(pod.Spec.Affinity)
	}
	return false
}

func claimInScope(c *corev1.PersistentVolumeClaim, s *corev1.ScopedResourceSelectorRequirement) bool {
	names := AttributesClasses(c)
	if len(names) == 0 {
		return among("", s)
	}
	return slices.ContainsFunc(names, func(name string) bool { return among(name, s) })
}

// AttributesClasses are those of a volume, in order: the one that is asked for, the one that it has, and the one that
// it is getting. A claim is in the scope of each.
func AttributesClasses(c *corev1.PersistentVolumeClaim) []string {
	var names []string
	for _, name := range []*string{c.Spec.VolumeAttributesClassName, c.Status.CurrentVolumeAttributesClassName} {
		if name != nil && *name != "" {
			names = append(names, *name)
		}
	}
	if m := c.Status.ModifyVolumeStatus; m != nil && m.TargetVolumeAttributesClassName != "" {
		names = append(names, m.TargetVolumeAttributesClassName)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func among(name string, s *corev1.ScopedResourceSelectorRequirement) bool {
	switch s.Operator {
	case corev1.ScopeSelectorOpExists:
		return name != ""
	case corev1.ScopeSelectorOpDoesNotExist:
		return name == ""
	case corev1.ScopeSelectorOpIn:
		return slices.Contains(s.Values, name)
	case corev1.ScopeSelectorOpNotIn:
		return !slices.Contains(s.Values, name)
	}
	return false
}

// bestEffort: no container has requests or limits of CPU or memory.
func bestEffort(pod *corev1.Pod) bool {
	options := podresources.PodResourcesOptions{ExcludeOverhead: true}
	for _, list := range []corev1.ResourceList{podresources.PodRequests(pod, options),
		podresources.PodLimits(pod, options)} {
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			if q := list[name]; !q.IsZero() {
				return false
			}
		}
	}
	return true
}

func crossesNamespaces(a *corev1.Affinity) bool {
	if a == nil {
		return false
	}
	var terms []corev1.PodAffinityTerm
	add := func(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
		terms = append(terms, required...)
		for i := range preferred {
			terms = append(terms, preferred[i].PodAffinityTerm)
		}
	}
	if p := a.PodAffinity; p != nil {
		add(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if p := a.PodAntiAffinity; p != nil {
		add(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	return slices.ContainsFunc(terms, func(t corev1.PodAffinityTerm) bool {
		return len(t.Namespaces) > 0 ||
			t.NamespaceSelector != nil
	})
}
