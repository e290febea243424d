package status

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
)

// setResources tells what the pod as a whole was allocated and, once it runs, what its control group has of it
// (KEP-5419).
func setResources(in *Input, s *v1.PodStatus) {
	requests := resourcehelper.PodRequests(in.Pod, resourcehelper.PodResourcesOptions{})
	s.AllocatedResources = requests
	has := in.Pod.Spec.Resources.DeepCopy()
	if has == nil {
		has = &v1.ResourceRequirements{}
	}
	s.Resources = has
	if in.Previous.Phase != v1.PodRunning {
		has.Requests = requests.DeepCopy()
		has.Limits = resourcehelper.PodLimits(in.Pod, resourcehelper.PodResourcesOptions{})
		return
	}
	if has.Requests == nil {
		has.Requests = v1.ResourceList{}
	}
	if has.Limits == nil {
		has.Limits = v1.ResourceList{}
	}
	before := in.Previous.Resources
	if before == nil {
		before = &v1.ResourceRequirements{}
	}
	if _, own := has.Requests[v1.ResourceMemory]; !own {
		keep(has.Requests, requests, v1.ResourceMemory)
	}
	keep(has.Requests, before.Requests, v1.ResourceMemory) // the kernel doesn't know of it
	l := in.Limits
	if l == nil || l.CPUShares == 0 {
		keep(has.Requests, before.Requests, v1.ResourceCPU)
	} else {
		put(has.Requests, v1.ResourceCPU, (l.CPUShares*1000+1023)/1024, leastMilliShares)
	}
	if l == nil || l.CPUQuota == 0 {
		keep(has.Limits, before.Limits, v1.ResourceCPU)
	} else {
		put(has.Limits, v1.ResourceCPU, l.CPUQuota*1000/l.CPUPeriod, leastMilliQuota)
	}
	if l == nil || l.MemoryBytes == 0 {
		keep(has.Limits, before.Limits, v1.ResourceMemory)
	} else {
		has.Limits[v1.ResourceMemory] = *resource.NewQuantity(l.MemoryBytes, resource.BinarySI)
	}
}

// keep copies a resource, if it is there.
func keep(to, from v1.ResourceList, name v1.ResourceName) {
	if q, ok := from[name]; ok {
		to[name] = q.DeepCopy()
	}
}
