package node

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	kruntime "quintet.dev/quintet/components/kubelet/runtime"
)

// Capacity is what the machine has, as the engine and the machine's bounds tell.
func (n *Node) Capacity(info kruntime.Info) v1.ResourceList {
	milliCPUs, memory := int64(info.CPUs)*1000, info.MemoryBytes
	if n.Bounds.MilliCPUs > 0 {
		milliCPUs = min(milliCPUs, n.Bounds.MilliCPUs)
	}
	if n.Bounds.MemoryBytes > 0 {
		memory = min(memory, n.Bounds.MemoryBytes)
	}
	own := v1.ResourceList{
		v1.ResourceCPU:    *resource.NewMilliQuantity(milliCPUs, resource.DecimalSI),
		v1.ResourceMemory: *resource.NewQuantity(memory, resource.BinarySI),
		v1.ResourcePods:   *resource.NewQuantity(int64(n.MaxPods), resource.DecimalSI),
	}
	maps.Copy(own, n.HugePages)
	var disk unix.Statfs_t
	if n.RootDir != "" && unix.Statfs(n.RootDir, &disk) == nil {
		own[v1.ResourceEphemeralStorage] = *resource.NewQuantity(int64(disk.Blocks)*int64(disk.Bsize),
			resource.BinarySI)
	}
	return own
}

// CheckReserved returns upstream's error for a reservation that is larger than the machine.
func (n *Node) CheckReserved(info kruntime.Info) error {
	own := n.Capacity(info)
	unavailable := n.unavailable(own)
	for _, name := range slices.Sorted(maps.Keys(own)) {
		capacity, reserved := own[name], unavailable[name]
		if reserved.Cmp(capacity) > 0 {
			return fmt.Errorf("resource %q has a reservation of %s but capacity of %s. Expected capacity >= reservation",
				name, &reserved, &capacity)
		}
	}
	return nil
}

// unavailable is what pods can't have of a capacity.
func (n *Node) unavailable(own v1.ResourceList) v1.ResourceList {
	total := v1.ResourceList{}
	add := func(list v1.ResourceList) {
		for name, quantity := range list {
			sum := total[name]
			sum.Add(quantity)
			total[name] = sum
		}
	}
	add(n.Reserved)
	if n.Withheld != nil {
		add(n.Withheld(own))
	}
	return total
}

// resources sets capacity and allocatable; extended resources that others advertise stay, and huge pages that the
// machine has no more are none. Memory in huge pages is allocatable only as such.
func (n *Node) resources(info kruntime.Info, s *v1.NodeStatus) {
	if s.Capacity == nil {
		s.Capacity = v1.ResourceList{}
	}
	if s.Allocatable == nil {
		s.Allocatable = v1.ResourceList{}
	}
	own := n.Capacity(info)
	for name := range s.Capacity {
		if _, has := own[name]; !has && isHugePages(name) {
			own[name] = *resource.NewQuantity(0, resource.BinarySI)
		}
	}
	unavailable := n.unavailable(own)
	memory := unavailable[v1.ResourceMemory]
	for name, quantity := range own {
		if isHugePages(name) {
			memory.Add(quantity)
		}
	}
	unavailable[v1.ResourceMemory] = memory
	for name, quantity := range own {
		s.Capacity[name] = quantity
		left := quantity.DeepCopy()
		left.Sub(unavailable[name])
		if left.Sign() < 0 {
			left.Set(0)
		}
		s.Allocatable[name] = left
	}
	if n.Devices != nil {
		capacity, allocatable := n.Devices()
		maps.Copy(s.Capacity, capacity)
		maps.Copy(s.Allocatable, allocatable)
	}
	for name, quantity := range s.Capacity {
		if _, ok := s.Allocatable[name]; !ok {
			s.Allocatable[name] = quantity
		}
	}
}

func isHugePages(name v1.ResourceName) bool {
	return strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix)
}
