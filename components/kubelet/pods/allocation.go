package pods

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	resourcehelper "k8s.io/component-helpers/resource"

	"quintet.dev/quintet/components/kubelet/plan"
)

// allocation holds the resources allocated to a pod. It is immutable; nil is that of a pod that was not
// admitted.
type allocation struct {
	containers []allocated
	pod        *v1.ResourceRequirements // of the pod as a whole
}

// allocated is what a container has.
type allocated struct {
	name      string
	resources v1.ResourceRequirements
}

// of finds what a container has; nil if it is not known.
func (a *allocation) of(name string) *v1.ResourceRequirements {
	for i := range a.containers {
		if a.containers[i].name == name {
			return &a.containers[i].resources
		}
	}
	return nil
}

// allocationOf returns the allocation of the resources in the pod's spec.
func allocationOf(pod *v1.Pod) *allocation {
	containers := plan.Containers(pod)
	a := &allocation{containers: make([]allocated, len(containers)), pod: pod.Spec.Resources.DeepCopy()}
	for i, c := range containers {
		a.containers[i] = allocated{c.Name, *c.Resources.DeepCopy()}
	}
	return a
}

// restoredAllocation returns the allocation that an earlier kubelet recorded in the pod's status, or the requested
// resources of a new pod. The resources of a pod are allocated together: if the status has other requests than the
// spec, none of the changes is allocated.
func restoredAllocation(pod *v1.Pod) *allocation {
	a := allocationOf(pod)
	told := map[string]*v1.ContainerStatus{}
	same := pod.Status.Resources == nil || equality.Semantic.DeepEqual(pod.Status.AllocatedResources, requests(pod))
	for _, list := range [][]v1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range list {
			told[list[i].Name] = &list[i]
			var wanted v1.ResourceList
			if known := a.of(list[i].Name); known != nil {
				wanted = known.Requests
			}
			same = same && (list[i].Resources == nil || equality.Semantic.DeepEqual(list[i].AllocatedResources, wanted))
		}
	}
	if same {
		return a
	}
	if a.pod != nil && pod.Status.Resources != nil {
		a.pod.Requests = without(pod.Status.AllocatedResources, pod.Spec.Overhead)
		a.pod.Limits = without(pod.Status.Resources.Limits, pod.Spec.Overhead)
	}
	for i := range a.containers {
		c := &a.containers[i]
		if cs := told[c.name]; cs != nil && cs.Resources != nil {
			c.resources.Requests, c.resources.Limits = cs.AllocatedResources, cs.Resources.Limits
		}
	}
	return a
}

// apply sets the allocated resources on the containers of a copy of the pod.
func (a *allocation) apply(pod *v1.Pod) {
	if a == nil {
		return
	}
	pod.Spec.Resources = a.pod.DeepCopy()
	for _, c := range plan.Containers(pod) {
		if has := a.of(c.Name); has != nil {
			c.Resources = *has.DeepCopy()
		}
	}
}

// matches tells that the resources in the spec of pod are those that are allocated.
func (a *allocation) matches(pod *v1.Pod) bool {
	for _, c := range plan.Containers(pod) {
		if has := a.of(c.Name); has == nil || !equality.Semantic.DeepEqual(*has, c.Resources) {
			return false
		}
	}
	return equality.Semantic.DeepEqual(a.pod, pod.Spec.Resources)
}

func requests(pod *v1.Pod) v1.ResourceList {
	return resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
}

// without returns a list minus the pod's overhead, which is added to its requests.
func without(list, overhead v1.ResourceList) v1.ResourceList {
	out := list.DeepCopy()
	for name, more := range overhead {
		if whole, ok := out[name]; ok {
			whole.Sub(more)
			out[name] = whole
		}
	}
	return out
}
