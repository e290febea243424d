package dynamicresources

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/scheduler/cycle"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

// unwritten is the name of a claim for extended resources before it is created. No object can have it.
const unwritten = "<extended-resources>"

// wantsExtended tells whether a device class serves a resource that the pod requests.
func (t *test) wantsExtended() bool {
	for name, amount := range t.pod.Requests.Scalar {
		if amount > 0 && snapshot.IsExtended(name) && t.snapshot.DeviceClassFor(name) != nil {
			return true
		}
	}
	return false
}

// specialClaim returns the claim that an earlier attempt made for the pod's extended resources, or a new one without
// requests, as these differ by node.
func (t *test) specialClaim() *resourcev1.ResourceClaim {
	pod := t.pod.Obj
	var found *resourcev1.ResourceClaim
	t.snapshot.ResourceClaims(func(claim *resourcev1.ResourceClaim) bool {
		if claim.Namespace == pod.Namespace && metav1.IsControlledBy(claim, pod) &&
			claim.Annotations[resourcev1.ExtendedResourceClaimAnnotation] == "true" {
			found = claim
		}
		return found == nil
	})
	if found != nil {
		return found
	}
	return &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: pod.Namespace, Name: unwritten, GenerateName: pod.Name + "-extended-resources-",
		UID: types.UID(unwritten + "/" + string(pod.UID)),
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID,
			Controller: ptr.To(true)}},
		Annotations: map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"},
	}}
}

// servedResource is an extended resource and the class whose devices serve it.
type servedResource struct {
	name  v1.ResourceName
	class string
}

// servedOn finds out which extended resources the node has through device classes only, in the order of their names.
func (t *test) servedOn(n *snapshot.Node) ([]servedResource, *cycle.Refusal) {
	if t.claims[t.special].Name != unwritten { // PostFilter deletes it
		return nil, refuse(reasonStaleExtended)
	}
	var served []servedResource
	for name, amount := range t.pod.Requests.Scalar {
		if amount == 0 || !snapshot.IsExtended(name) {
			continue
		}
		allocatable, has := n.Allocatable.Scalar[name]
		class := t.snapshot.DeviceClassFor(name)
		switch {
		case class != nil && allocatable == 0:
			served = append(served, servedResource{name, class.Name})
		case !has:
			return nil, refuse(reasonCannotFit)
		}
	}
	slices.SortFunc(served, func(a, b servedResource) int { return cmp.Compare(a.name, b.name) })
	return served, nil
}

// requestsFor returns the device requests for extended resources, which map to classes, and which request serves which
// container. Init containers use the devices of the containers that come after them, and share what they need besides.
func requestsFor(pod *v1.Pod,
	served []servedResource) ([]resourcev1.DeviceRequest, []v1.ContainerExtendedResourceRequest) {
	all := slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers)
	var requests []resourcev1.DeviceRequest
	var mappings []v1.ContainerExtendedResourceRequest
	for _, r := range served {
		of := &resourceRequests{name: r.name, class: r.class, containers: all,
			long: make([]*resourcev1.DeviceRequest, len(all))}
		for i := range all {
			if i >= len(pod.Spec.InitContainers) || sidecar(&all[i]) {
				of.addLong(i)
			}
		}
		for i := range pod.Spec.InitContainers {
			if !sidecar(&all[i]) {
				of.addInit(i)
			}
		}
		more, mapped := of.finish()
		requests, mappings = append(requests, more...), append(mappings, mapped...)
	}
	slices.SortFunc(requests, func(a, b resourcev1.DeviceRequest) int { return cmp.Compare(a.Name, b.Name) })
	return requests, mappings
}

func sidecar(c *v1.Container) bool {
	return ptr.Deref(c.RestartPolicy, "") == v1.ContainerRestartPolicyAlways
}

// resourceRequests are the device requests for one extended resource.
type resourceRequests struct {
	name       v1.ResourceName
	class      string
	containers []v1.Container

	long           []*resourcev1.DeviceRequest // by container, of those that run as long as the pod
	most           *resourcev1.DeviceRequest   // the largest of init containers
	initNames      []string                    // of all requests of init containers, of which only most is made
	mapped, during []v1.ContainerExtendedResourceRequest
}

func (r *resourceRequests) addLong(i int) {
	if count := r.count(i); count > 0 {
		r.long[i] = r.request(i, count)
		r.mapped = append(r.mapped, r.mapping(i, r.long[i].Name))
	}
}

func (r *resourceRequests) addInit(i int) {
	count := r.count(i)
	if count == 0 {
		return
	}
	for _, reused := range r.long[i:] {
		if reused == nil {
			continue
		}
		r.during = append(r.during, r.mapping(i, reused.Name))
		if count -= reused.Exactly.Count; count <= 0 {
			return
		}
	}
	own := r.request(i, count)
	r.initNames = append(r.initNames, own.Name)
	r.during = append(r.during, r.mapping(i, own.Name))
	if r.most == nil || r.most.Exactly.Count < count {
		r.most = own
	}
}

func (r *resourceRequests) finish() ([]resourcev1.DeviceRequest, []v1.ContainerExtendedResourceRequest) {
	var requests []resourcev1.DeviceRequest
	if r.most != nil {
		requests = append(requests, *r.most)
		for i := range r.during {
			if slices.Contains(r.initNames, r.during[i].RequestName) {
				r.during[i].RequestName = r.most.Name
			}
		}
	}
	for _, request := range r.long {
		if request != nil {
			requests = append(requests, *request)
		}
	}
	return requests, append(r.mapped, r.during...)
}

func (r *resourceRequests) count(i int) int64 {
	quantity := r.containers[i].Resources.Requests[r.name]
	count, whole := quantity.AsInt64()
	if !whole {
		return 0
	}
	return count
}

// request is named by the places of the container and of the resource among its requests.
func (r *resourceRequests) request(i int, count int64) *resourcev1.DeviceRequest {
	names := slices.Sorted(maps.Keys(r.containers[i].Resources.Requests))
	return &resourcev1.DeviceRequest{
		Name: fmt.Sprintf("container-%d-request-%d", i, slices.Index(names, r.name)),
		Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: r.class,
			AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: count},
	}
}

func (r *resourceRequests) mapping(i int, request string) v1.ContainerExtendedResourceRequest {
	return v1.ContainerExtendedResourceRequest{ContainerName: r.containers[i].Name, ResourceName: string(r.name),
		RequestName: request}
}
