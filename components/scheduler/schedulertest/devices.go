package schedulertest

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Driver is the driver of all devices here.
const Driver = "driver.example.com"

// DeviceClass selects all devices of Driver; change, if not nil, does the rest.
func DeviceClass(name string, change func(*resourcev1.DeviceClass)) *resourcev1.DeviceClass {
	c := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "1"},
		Spec: resourcev1.DeviceClassSpec{Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{
			Expression: fmt.Sprintf("device.driver == %q", Driver)}}}}}
	if change != nil {
		change(c)
	}
	return c
}

// Serves has a class serve an extended resource.
func Serves(resource string) func(*resourcev1.DeviceClass) {
	return func(c *resourcev1.DeviceClass) { c.Spec.ExtendedResourceName = &resource }
}

// Slice publishes the devices of a node, which are a pool of its name.
func Slice(node string, devices ...resourcev1.Device) *resourcev1.ResourceSlice {
	return &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node + "-slice", ResourceVersion: "1"},
		Spec: resourcev1.ResourceSliceSpec{Driver: Driver, NodeName: &node, Devices: devices,
			Pool: resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1}}}
}

// Device has a model, as a string attribute; change, if not nil, does the rest.
func Device(name, model string, change func(*resourcev1.Device)) resourcev1.Device {
	d := resourcev1.Device{Name: name,
		Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"model": {StringValue: &model}}}
	if change != nil {
		change(&d)
	}
	return d
}

// ResourceClaim is in namespace "default" and makes requests.
func ResourceClaim(name string, requests ...resourcev1.DeviceRequest) *resourcev1.ResourceClaim {
	return &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), ResourceVersion: "1"},
		Spec:       resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: requests}}}
}

// Exactly requests a number of devices of a class.
func Exactly(name, class string, count int64) resourcev1.DeviceRequest {
	return resourcev1.DeviceRequest{Name: name, Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: class,
		AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: count}}
}

// FirstModel requests a device of a class, of the first model that there is; each alternative has its model's name.
func FirstModel(name, class string, models ...string) resourcev1.DeviceRequest {
	r := resourcev1.DeviceRequest{Name: name}
	for _, model := range models {
		expression := fmt.Sprintf("device.attributes[%q].model == %q", Driver, model)
		r.FirstAvailable = append(r.FirstAvailable, resourcev1.DeviceSubRequest{Name: model, DeviceClassName: class,
			AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1,
			Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: expression}}}})
	}
	return r
}

// Allocated gives a claim a device of a node, for a request.
func Allocated(claim *resourcev1.ResourceClaim, request, node, device string) *resourcev1.ResourceClaim {
	claim.Finalizers = []string{resourcev1.Finalizer}
	claim.Status.Allocation = &resourcev1.AllocationResult{
		Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{
			{Request: request, Driver: Driver, Pool: node, Device: device}}},
		NodeSelector: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpIn,
				Values: []string{node}}}}}},
	}
	return claim
}

// ReservedFor reserves a claim for pods.
func ReservedFor(claim *resourcev1.ResourceClaim, pods ...string) *resourcev1.ResourceClaim {
	for _, name := range pods {
		claim.Status.ReservedFor = append(claim.Status.ReservedFor,
			resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: name, UID: types.UID(name)})
	}
	return claim
}

// Claiming makes a pod use resource claims.
func Claiming(claims ...string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		for _, name := range claims {
			p.Spec.ResourceClaims = append(p.Spec.ResourceClaims,
				v1.PodResourceClaim{Name: name, ResourceClaimName: &name})
		}
	}
}
