package snapshot

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"
)

// What a container without requests is taken to use when nodes are scored, so that such pods spread too.
const (
	defaultMilliCPU int64 = 100
	defaultMemory   int64 = 200 * 1024 * 1024
)

// Resources is an amount of each resource: CPU in thousandths, Memory and Ephemeral storage in bytes, the rest
// (huge pages, extended and attachable resources) in Scalar by name.
type Resources struct {
	CPU, Memory, Ephemeral int64
	Scalar                 map[v1.ResourceName]int64
}

// Of returns the amount of one resource.
func (r *Resources) Of(name v1.ResourceName) int64 {
	switch name {
	case v1.ResourceCPU:
		return r.CPU
	case v1.ResourceMemory:
		return r.Memory
	case v1.ResourceEphemeralStorage:
		return r.Ephemeral
	}
	return r.Scalar[name]
}

// add adds sign times other.
func (r *Resources) add(other *Resources, sign int64) {
	r.CPU += sign * other.CPU
	r.Memory += sign * other.Memory
	r.Ephemeral += sign * other.Ephemeral
	for name, amount := range other.Scalar {
		if r.Scalar == nil {
			r.Scalar = map[v1.ResourceName]int64{}
		}
		r.Scalar[name] += sign * amount
	}
}

func (r *Resources) clone() Resources {
	c := *r
	if r.Scalar != nil {
		c.Scalar = make(map[v1.ResourceName]int64, len(r.Scalar))
		for name, amount := range r.Scalar {
			c.Scalar[name] = amount
		}
	}
	return c
}

// ResourcesOf converts a list; the number of pods is left out.
func ResourcesOf(list v1.ResourceList) Resources {
	var r Resources
	for name, quantity := range list {
		switch name {
		case v1.ResourceCPU:
			r.CPU = quantity.MilliValue()
		case v1.ResourceMemory:
			r.Memory = quantity.Value()
		case v1.ResourceEphemeralStorage:
			r.Ephemeral = quantity.Value()
		case v1.ResourcePods:
		default:
			if r.Scalar == nil {
				r.Scalar = map[v1.ResourceName]int64{}
			}
			r.Scalar[name] = quantity.Value()
		}
	}
	return r
}

// requests computes what a pod asks of a node: containers, init containers, sidecars, overhead and pod-level
// resources (KEPs 753, 2837), and what the kubelet reports of a resize under way (KEP 1287).
func requests(pod *v1.Pod) (asked, scored Resources) {
	options := resource.PodResourcesOptions{UseStatusResources: true,
		InPlacePodLevelResourcesVerticalScalingEnabled: true}
	asked = ResourcesOf(resource.PodRequests(pod, options))
	if everyContainerAsks(pod) {
		scored = asked
		scored.Scalar = nil
		return asked, scored
	}
	options.NonMissingContainerRequests = nonMissing
	scored = ResourcesOf(resource.PodRequests(pod, options))
	scored.Scalar = nil
	return asked, scored
}

func everyContainerAsks(pod *v1.Pod) bool {
	for _, containers := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			_, cpu := containers[i].Resources.Requests[v1.ResourceCPU]
			_, memory := containers[i].Resources.Requests[v1.ResourceMemory]
			if !cpu || !memory {
				return false
			}
		}
	}
	return true
}
