package resourcequota

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	podresources "k8s.io/component-helpers/resource"
)

func scopesOf(q *v1.ResourceQuota) []v1.ScopedResourceSelectorRequirement {
	var all []v1.ScopedResourceSelectorRequirement
	for _, s := range q.Spec.Scopes {
		all = append(all, v1.ScopedResourceSelectorRequirement{ScopeName: s, Operator: v1.ScopeSelectorOpExists})
	}
	if q.Spec.ScopeSelector != nil {
		all = append(all, q.Spec.ScopeSelector.MatchExpressions...)
	}
	return all
}

// podInScope tells whether all scopes of the quota are about the pod.
func podInScope(pod *v1.Pod, q *v1.ResourceQuota) bool {
	return !slices.ContainsFunc(scopesOf(q), func(s v1.ScopedResourceSelectorRequirement) bool { return !podMatches(pod, s) })
}

func podMatches(pod *v1.Pod, s v1.ScopedResourceSelectorRequirement) bool {
	switch s.ScopeName {
	case v1.ResourceQuotaScopeTerminating:
		return pod.Spec.ActiveDeadlineSeconds != nil && *pod.Spec.ActiveDeadlineSeconds >= 0
	case v1.ResourceQuotaScopeNotTerminating:
		return pod.Spec.ActiveDeadlineSeconds == nil
	case v1.ResourceQuotaScopeBestEffort:
		return bestEffort(pod)
	case v1.ResourceQuotaScopeNotBestEffort:
		return !bestEffort(pod)
	case v1.ResourceQuotaScopePriorityClass:
		return among(pod.Spec.PriorityClassName, s)
	case v1.ResourceQuotaScopeCrossNamespacePodAffinity:
		return crossesNamespaces(pod.Spec.Affinity)
	}
	return false
}

func claimInScope(c *v1.PersistentVolumeClaim, q *v1.ResourceQuota) bool {
	class := ""
	if c.Spec.VolumeAttributesClassName != nil {
		class = *c.Spec.VolumeAttributesClassName
	}
	return !slices.ContainsFunc(scopesOf(q), func(s v1.ScopedResourceSelectorRequirement) bool {
		return s.ScopeName != v1.ResourceQuotaScopeVolumeAttributesClass || !among(class, s)
	})
}

func among(name string, s v1.ScopedResourceSelectorRequirement) bool {
	switch s.Operator {
	case v1.ScopeSelectorOpExists:
		return name != ""
	case v1.ScopeSelectorOpDoesNotExist:
		return name == ""
	case v1.ScopeSelectorOpIn:
		return slices.Contains(s.Values, name)
	case v1.ScopeSelectorOpNotIn:
		return !slices.Contains(s.Values, name)
	}
	return false
}

// bestEffort pods ask for neither CPU nor memory and limit neither.
func bestEffort(pod *v1.Pod) bool {
	options := podresources.PodResourcesOptions{ExcludeOverhead: true}
	for _, list := range []v1.ResourceList{podresources.PodRequests(pod, options), podresources.PodLimits(pod, options)} {
		for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
			if q, ok := list[name]; ok && !q.IsZero() {
				return false
			}
		}
	}
	return true
}

func crossesNamespaces(a *v1.Affinity) bool {
	if a == nil {
		return false
	}
	var terms []v1.PodAffinityTerm
	if a.PodAffinity != nil {
		terms = append(terms, a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution...)
		for _, weighted := range a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
			terms = append(terms, weighted.PodAffinityTerm)
		}
	}
	if a.PodAntiAffinity != nil {
		terms = append(terms, a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution...)
		for _, weighted := range a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
			terms = append(terms, weighted.PodAffinityTerm)
		}
	}
	return slices.ContainsFunc(terms, func(t v1.PodAffinityTerm) bool { return len(t.Namespaces) > 0 || t.NamespaceSelector != nil })
}
