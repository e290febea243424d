package spec

import (
	v1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"quintet.dev/quintet/components/kubelet/cgroups"
	"quintet.dev/quintet/components/kubelet/status"
)

// HugePages is how much memory in huge pages the pod may use, by resource name.
func HugePages(pod *v1.Pod) v1.ResourceList {
	return resourcehelper.PodLimits(pod, resourcehelper.PodResourcesOptions{})
}

// ContainerSettings is what the control group of a container gets when it runs.
func (b *Builder) ContainerSettings(pod *v1.Pod, c *v1.Container) cgroups.ContainerSettings {
	swap := b.swap(pod, c)
	return cgroups.ContainerSettings{KillTogether: b.KillTogether, SwapBytes: &swap}
}

// swap is how much of a container may be swapped: nothing, or with LimitedSwap, for containers of burstable pods that
// request a part of the memory that they may use, the same part of the node's swap as of its memory
// (https://kubernetes.io/docs/concepts/cluster-administration/swap-memory-management/).
func (b *Builder) swap(pod *v1.Pod, c *v1.Container) int64 {
	request, limit := c.Resources.Requests[v1.ResourceMemory], c.Resources.Limits[v1.ResourceMemory]
	if !b.LimitedSwap || b.MemoryBytes <= 0 || status.QOS(pod) != v1.PodQOSBurstable || Critical(pod) ||
		request.Cmp(limit) == 0 {
		return 0
	}
	part := float64(request.Value()) / float64(b.MemoryBytes)
	return int64(part * float64(b.SwapBytes))
}

// containerPIDs bounds the processes of each container where the pod's control group can't.
func (b *Builder) containerPIDs() int64 {
	if b.Cgroups.Mount != "" {
		return 0
	}
	return b.PidsLimit
}
