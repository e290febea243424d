package spec

import (
	v1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"quintet.dev/quintet/components/kubelet/plan"
	"quintet.dev/quintet/components/kubelet/static"
	"quintet.dev/quintet/components/kubelet/status"
)

const (
	// criticalPriority is that of pods the cluster can't do without, or a higher one.
	criticalPriority = 2_000_000_000
	// nodeCritical is the class of those among them that the node can't do without.
	nodeCritical = "system-node-critical"
)

// Critical tells pods that are not evicted: those that the cluster can't do without, and those of the node's own files.
func Critical(pod *v1.Pod) bool {
	return static.Is(pod) || static.IsMirror(pod) || pod.Spec.Priority != nil && *pod.Spec.Priority >= criticalPriority
}

// Bounds of how gladly containers are killed.
const (
	killedLast  = -997
	killedFirst = 1000
)

// oomScore is how gladly the kernel kills the container when memory runs out
// (https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/#node-out-of-memory-behavior). What a
// pod asks for as a whole, and none of its containers, is shared equally (KEP-2837); a sidecar goes no sooner than what
// it is there for (KEP-753).
func oomScore(pod *v1.Pod, c *v1.Container, machine int64) int {
	if Critical(pod) && pod.Spec.PriorityClassName == nodeCritical {
		return killedLast
	}
	switch status.QOS(pod) {
	case v1.PodQOSGuaranteed:
		return killedLast
	case v1.PodQOSBestEffort:
		return killedFirst
	}
	if machine <= 0 {
		return killedFirst - 1
	}
	score := func(request int64) int64 { return killedFirst - 1000*request/machine }
	share := memoryShare(pod)
	own := score(memoryOf(c) + share)
	if plan.IsInit(pod, c.Name) && plan.IsSidecar(c) {
		own = min(own, score(leastMemory(pod)+share))
	}
	return int(min(max(own, killedFirst+killedLast), killedFirst-1))
}

func memoryOf(c *v1.Container) int64 {
	request := c.Resources.Requests[v1.ResourceMemory]
	return request.Value()
}

// memoryShare is each container's share of the pod-level memory request beyond the requests of the containers.
func memoryShare(pod *v1.Pod) int64 {
	if pod.Spec.Resources == nil {
		return 0
	}
	whole := pod.Spec.Resources.Requests[v1.ResourceMemory]
	if whole.IsZero() {
		return 0
	}
	asked := resourcehelper.AggregateContainerRequests(pod, resourcehelper.PodResourcesOptions{})
	return (whole.Value() - asked.Memory().Value()) / int64(len(plan.Containers(pod)))
}

// leastMemory returns the smallest memory request of the containers, without init containers.
func leastMemory(pod *v1.Pod) int64 {
	least := memoryOf(&pod.Spec.Containers[0])
	for i := range pod.Spec.Containers {
		least = min(least, memoryOf(&pod.Spec.Containers[i]))
	}
	return least
}
