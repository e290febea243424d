package spec

import (
	"math"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	"quintet.dev/quintet/components/kubelet/cgroups"
	"quintet.dev/quintet/components/kubelet/runtime"
	"quintet.dev/quintet/components/kubelet/status"
)

// Resources converts requests and limits of a container into what the kernel's schedulers understand. What has no limit
// of its own has its pod's (KEP-2837).
func (b *Builder) Resources(pod *v1.Pod, c *v1.Container) runtime.Resources {
	var s runtime.Resources
	cpu, ok := c.Resources.Requests[v1.ResourceCPU]
	limit := limitOf(pod, c, v1.ResourceCPU)
	if !ok {
		cpu = limit
	}
	s.CPUShares = CPUShares(cpu)
	s.CPUQuota, s.CPUPeriod = b.quota(limit)
	memory := limitOf(pod, c, v1.ResourceMemory)
	s.MemoryBytes = memory.Value()
	return s
}

// PodLimits is what the control group of a pod gets. A pod is bounded by the sum of what its containers may use at most
// only where all of them have a bound, or by what it says itself.
func (b *Builder) PodLimits(pod *v1.Pod) cgroups.Limits {
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	bounded := map[v1.ResourceName]bool{v1.ResourceCPU: true, v1.ResourceMemory: true}
	limits := resourcehelper.PodLimits(pod, resourcehelper.PodResourcesOptions{
		ContainerFn: func(own v1.ResourceList, _ resourcehelper.ContainerType) {
			for name := range bounded {
				if q := own[name]; q.IsZero() {
					bounded[name] = false
				}
			}
		},
	})
	for name := range bounded {
		if q := podLimit(pod, name); !q.IsZero() {
			bounded[name] = true
		}
	}
	l := cgroups.Limits{CPUShares: CPUShares(requests[v1.ResourceCPU])}
	if b.PidsLimit > 0 {
		l.PIDs = b.PidsLimit
	}
	if status.QOS(pod) == v1.PodQOSBestEffort {
		return cgroups.Limits{CPUShares: fewestShares, PIDs: l.PIDs}
	}
	if bounded[v1.ResourceCPU] {
		l.CPUQuota, l.CPUPeriod = b.quota(limits[v1.ResourceCPU])
	}
	if bounded[v1.ResourceMemory] {
		l.MemoryBytes = limits.Memory().Value()
	}
	return l
}

func limitOf(pod *v1.Pod, c *v1.Container, name v1.ResourceName) resource.Quantity {
	if own := c.Resources.Limits[name]; !own.IsZero() {
		return own
	}
	return podLimit(pod, name)
}

func podLimit(pod *v1.Pod, name v1.ResourceName) resource.Quantity {
	if pod.Spec.Resources == nil {
		return resource.Quantity{}
	}
	return pod.Spec.Resources.Limits[name]
}

// The kernel's minimum and maximum of CPU shares.
const (
	fewestShares = 2
	mostShares   = 262144
)

// CPUShares is the weight of an amount of CPU among the kernel's control groups.
func CPUShares(cpu resource.Quantity) int64 {
	milli := min(cpu.MilliValue(), mostShares*1000/1024)
	return max(fewestShares, milli*1024/1000)
}

// quota is CPU time per period, nothing for no limit.
func (b *Builder) quota(limit resource.Quantity) (quota, period int64) {
	if limit.IsZero() || !b.CPUQuota {
		return 0, 0
	}
	period = b.CPUPeriod.Microseconds()
	milli := min(limit.MilliValue(), math.MaxInt64/period)
	return max(1000, milli*period/1000), period
}
