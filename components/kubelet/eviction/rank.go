package eviction

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
)

// Usage is what a pod's containers take, by their names, and the pod as a whole, in bytes.
type Usage struct {
	Memory     map[string]int64
	Containers map[string]int64 // space on the disk
	Disk       int64            // space on the disk, volumes included
}

// Candidate is a pod that may have to end. Usage is nil if it could not be measured.
type Candidate struct {
	Pod   *v1.Pod
	Usage *Usage
}

func (c *Candidate) used(name v1.ResourceName) int64 {
	if name == v1.ResourceEphemeralStorage {
		return c.Usage.Disk
	}
	var sum int64
	for _, bytes := range c.Usage.Memory {
		sum += bytes
	}
	return sum
}

func (c *Candidate) requested(name v1.ResourceName) int64 {
	requests := resourcehelper.PodRequests(c.Pod, resourcehelper.PodResourcesOptions{})
	quantity := requests[name]
	return quantity.Value()
}

func (c *Candidate) priority() int32 {
	if c.Pod.Spec.Priority == nil {
		return 0
	}
	return *c.Pod.Spec.Priority
}

// rank sorts the pods that end first to the front: those that can't be measured, those that take more than they
// request, those of lower priority, those that take most beyond their request. Process IDs and inodes are not measured
// by pod: there the priority alone counts.
func rank(candidates []Candidate, name v1.ResourceName) {
	measured := name == v1.ResourceMemory || name == v1.ResourceEphemeralStorage
	first := func(is bool) int {
		if is {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(candidates, func(a, b Candidate) int {
		if !measured {
			return cmp.Compare(a.priority(), b.priority())
		}
		if a.Usage == nil || b.Usage == nil {
			return cmp.Compare(first(a.Usage == nil), first(b.Usage == nil))
		}
		beyondA, beyondB := a.used(name)-a.requested(name), b.used(name)-b.requested(name)
		return cmp.Or(cmp.Compare(first(beyondA > 0), first(beyondB > 0)), cmp.Compare(a.priority(), b.priority()),
			cmp.Compare(beyondB, beyondA))
	})
}

// message tells why a pod ends: the threshold, and which of its containers take more than they request.
func message(c *Candidate, t *Threshold, level Level) string {
	name := t.Signal.resource()
	var text strings.Builder
	fmt.Fprintf(&text, "The node was low on resource: %v. Threshold quantity: %v, available: %v. ", name,
		amountText(t.Signal, t.least.of(level.Capacity)), amountText(t.Signal, level.Available))
	if c.Usage == nil {
		return text.String()
	}
	taken := c.Usage.Memory
	switch name {
	case v1.ResourceMemory:
	case v1.ResourceEphemeralStorage:
		taken = c.Usage.Containers
	default:
		return text.String()
	}
	for i := range c.Pod.Spec.Containers {
		container := &c.Pod.Spec.Containers[i]
		bytes, ok := taken[container.Name]
		request := container.Resources.Requests[name]
		if ok && request.CmpInt64(bytes) < 0 {
			fmt.Fprintf(&text, "Container %s was using %s, request is %s, has larger consumption of %v. ",
				container.Name, amountText(t.Signal, bytes), request.String(), name)
		}
	}
	return text.String()
}

// amountText is a quantity as upstream prints it: bytes in binary units, rounded to what is readable.
func amountText(signal Signal, n int64) string {
	if signal == PID || signal == NodeInodes || signal == ImageInodes {
		return resource.NewQuantity(n, resource.DecimalSI).String()
	}
	const unit = 1 << 10
	if n > unit {
		n = n / unit * unit
	}
	return resource.NewQuantity(n, resource.BinarySI).String()
}
