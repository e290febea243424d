package scheduler

import (
	"unique"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"
)

// trim drops from objects, before informers keep them, what the scheduler does not read: managed fields and, where
// neither plug-ins of users nor extenders get to see them, most of what nodes and running pods are described by.
func (c *Config) trim() cache.TransformFunc {
	whole := len(c.plugins) > 0 || len(c.Extenders) > 0
	return func(obj any) (any, error) {
		if accessor, err := meta.Accessor(obj); err == nil {
			accessor.SetManagedFields(nil)
		}
		if whole {
			return obj, nil
		}
		switch obj := obj.(type) {
		case *v1.Node:
			trimNode(obj)
		case *v1.Pod:
			if obj.Spec.NodeName != "" { // whether a node has the features that a pod needs goes by all of the pod
				trimPlaced(obj)
			}
		}
		return obj, nil
	}
}

// trimNode keeps metadata, spec, what can be allocated, features and images. Nodes have most of the names of images,
// which are long, in common.
func trimNode(node *v1.Node) {
	node.Annotations = nil
	node.Status = v1.NodeStatus{Allocatable: node.Status.Allocatable, Images: node.Status.Images,
		DeclaredFeatures: node.Status.DeclaredFeatures}
	for i := range node.Status.Images {
		for j, name := range node.Status.Images[i].Names {
			node.Status.Images[i].Names[j] = unique.Make(name).Value()
		}
	}
}

// trimPlaced keeps of a pod that has a node what it takes there, and what pods that wait for one see of it.
func trimPlaced(pod *v1.Pod) {
	pod.Annotations = nil
	for _, containers := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			c := &containers[i]
			containers[i] = v1.Container{Name: c.Name, Image: c.Image, Ports: c.Ports, Resources: c.Resources,
				RestartPolicy: c.RestartPolicy}
		}
	}
	pod.Spec.EphemeralContainers = nil
	status := &pod.Status
	status.HostIP, status.HostIPs, status.PodIP, status.PodIPs = "", nil, "", nil
	status.EphemeralContainerStatuses = nil
	for _, containers := range [][]v1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses} {
		for i := range containers { // a resize under way
			c := &containers[i]
			containers[i] = v1.ContainerStatus{Name: c.Name, Resources: c.Resources,
				AllocatedResources: c.AllocatedResources}
		}
	}
}
