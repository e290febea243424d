package scheduler

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"quintet.dev/quintet/internal/alike"
)

// trim drops from objects, before informers keep them, what the scheduler does not read: managed fields and, where
// neither plug-ins of users nor extenders get to see them, most of what nodes and running pods are described by. What
// is left, objects share where they have it in common.
func (c *Config) trim() cache.TransformFunc {
	whole := len(c.plugins) > 0 || len(c.Extenders) > 0
	var pool alike.Pool
	return func(obj any) (any, error) {
		switch obj := obj.(type) {
		case *v1.Node:
			if !whole {
				trimNode(obj)
			}
		case *v1.Pod:
			if !whole && obj.Spec.NodeName != "" { // whether a node has the features that a pod needs goes by all of it
				trimPlaced(obj)
			}
		}
		return pool.Transform(obj)
	}
}

// trimNode keeps metadata, spec, what can be allocated, features and images.
func trimNode(node *v1.Node) {
	node.Annotations = nil
	node.Status = v1.NodeStatus{Allocatable: node.Status.Allocatable, Images: node.Status.Images,
		DeclaredFeatures: node.Status.DeclaredFeatures}
}

// trimPlaced keeps of a pod that has a node what it takes there, and what pods that wait for one see of it. Lists are
// made again: an object may come a second time, and shares its lists with others then.
func trimPlaced(pod *v1.Pod) {
	pod.Annotations = nil
	pod.Spec.InitContainers = trimContainers(pod.Spec.InitContainers)
	pod.Spec.Containers = trimContainers(pod.Spec.Containers)
	pod.Spec.EphemeralContainers = nil
	status := &pod.Status
	status.HostIP, status.HostIPs, status.PodIP, status.PodIPs = "", nil, "", nil
	status.EphemeralContainerStatuses = nil
	status.InitContainerStatuses = trimStatuses(status.InitContainerStatuses)
	status.ContainerStatuses = trimStatuses(status.ContainerStatuses)
}

func trimContainers(containers []v1.Container) []v1.Container {
	var kept []v1.Container
	for i := range containers {
		c := &containers[i]
		kept = append(kept, v1.Container{Name: c.Name, Image: c.Image, Ports: c.Ports, Resources: c.Resources,
			RestartPolicy: c.RestartPolicy})
	}
	return kept
}

// trimStatuses keeps what tells of a resize under way.
func trimStatuses(statuses []v1.ContainerStatus) []v1.ContainerStatus {
	var kept []v1.ContainerStatus
	for i := range statuses {
		c := &statuses[i]
		kept = append(kept, v1.ContainerStatus{Name: c.Name, Resources: c.Resources,
			AllocatedResources: c.AllocatedResources})
	}
	return kept
}
