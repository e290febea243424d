package status

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// Below these bounds the kernel rounds: the requested value is reported, not the actual one.
const (
	leastMilliQuota  = 10
	leastMilliShares = 2
)

// actual overwrites the allocated resources of a running container with the actual ones (KEP-1287).
func actual(has runtime.Resources, promised *v1.ResourceRequirements) {
	if promised.Limits != nil {
		if has.CPUQuota > 0 && has.CPUPeriod > 0 {
			put(promised.Limits, v1.ResourceCPU, has.CPUQuota*1000/has.CPUPeriod, leastMilliQuota)
		}
		if has.MemoryBytes > 0 {
			put(promised.Limits, v1.ResourceMemory, has.MemoryBytes, 0)
		}
	}
	if promised.Requests != nil && has.CPUShares > 0 {
		put(promised.Requests, v1.ResourceCPU, (has.CPUShares*1000+1023)/1024, leastMilliShares)
	}
}

// put sets a resource, in bytes or milli units, unless it is so or both values are no more than least.
func put(list v1.ResourceList, name v1.ResourceName, value, least int64) {
	old := list[name]
	was := old.Value()
	if name == v1.ResourceCPU {
		was = old.MilliValue()
	}
	switch {
	case was == value, was <= least && value <= least:
	case name == v1.ResourceCPU:
		list[name] = *resource.NewMilliQuantity(value, resource.DecimalSI)
	default:
		list[name] = *resource.NewQuantity(value, resource.BinarySI)
	}
}
