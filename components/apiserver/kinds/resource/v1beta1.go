package resource

import (
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/apiserver/kinds/twin"
)

// In v1beta1 requests say themselves what v1 has below "exactly", and devices below "basic" what v1 has right in them.
// The rest is alike.

// ClaimFromV1beta1 converts a claim.
func ClaimFromV1beta1(c *resourcev1beta1.ResourceClaim) *resourcev1.ResourceClaim {
	return &resourcev1.ResourceClaim{
		ObjectMeta: c.ObjectMeta, Spec: specFromV1beta1(&c.Spec),
		Status: *twin.Of[resourcev1.ResourceClaimStatus](&c.Status),
	}
}

// ClaimToV1beta1 does the opposite of ClaimFromV1beta1.
func ClaimToV1beta1(c *resourcev1.ResourceClaim) *resourcev1beta1.ResourceClaim {
	return &resourcev1beta1.ResourceClaim{
		ObjectMeta: c.ObjectMeta, Spec: specToV1beta1(&c.Spec),
		Status: *twin.Of[resourcev1beta1.ResourceClaimStatus](&c.Status),
	}
}

// TemplateFromV1beta1 converts a template.
func TemplateFromV1beta1(t *resourcev1beta1.ResourceClaimTemplate) *resourcev1.ResourceClaimTemplate {
	return &resourcev1.ResourceClaimTemplate{ObjectMeta: t.ObjectMeta, Spec: resourcev1.ResourceClaimTemplateSpec{
		ObjectMeta: t.Spec.ObjectMeta, Spec: specFromV1beta1(&t.Spec.Spec),
	}}
}

// TemplateToV1beta1 does the opposite of TemplateFromV1beta1.
func TemplateToV1beta1(t *resourcev1.ResourceClaimTemplate) *resourcev1beta1.ResourceClaimTemplate {
	return &resourcev1beta1.ResourceClaimTemplate{ObjectMeta: t.ObjectMeta,
		Spec: resourcev1beta1.ResourceClaimTemplateSpec{
			ObjectMeta: t.Spec.ObjectMeta, Spec: specToV1beta1(&t.Spec.Spec),
		}}
}

func specFromV1beta1(s *resourcev1beta1.ResourceClaimSpec) resourcev1.ResourceClaimSpec {
	return resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{
		Requests:    converted(s.Devices.Requests, requestFromV1beta1),
		Constraints: twin.List[resourcev1.DeviceConstraint](s.Devices.Constraints),
		Config:      twin.List[resourcev1.DeviceClaimConfiguration](s.Devices.Config),
	}}
}

func specToV1beta1(s *resourcev1.ResourceClaimSpec) resourcev1beta1.ResourceClaimSpec {
	return resourcev1beta1.ResourceClaimSpec{Devices: resourcev1beta1.DeviceClaim{
		Requests:    converted(s.Devices.Requests, requestToV1beta1),
		Constraints: twin.List[resourcev1beta1.DeviceConstraint](s.Devices.Constraints),
		Config:      twin.List[resourcev1beta1.DeviceClaimConfiguration](s.Devices.Config),
	}}
}

// requestFromV1beta1 takes a request for one that asks for something exactly if it says anything of what.
func requestFromV1beta1(r *resourcev1beta1.DeviceRequest) resourcev1.DeviceRequest {
	out := resourcev1.DeviceRequest{Name: r.Name,
		FirstAvailable: twin.List[resourcev1.DeviceSubRequest](r.FirstAvailable)}
	if r.DeviceClassName == "" && r.Selectors == nil && r.AllocationMode == "" && r.Count == 0 &&
		r.AdminAccess == nil && r.Tolerations == nil && r.Capacity == nil {
		return out
	}
	out.Exactly = &resourcev1.ExactDeviceRequest{
		DeviceClassName: r.DeviceClassName, Selectors: twin.List[resourcev1.DeviceSelector](r.Selectors),
		AllocationMode: resourcev1.DeviceAllocationMode(r.AllocationMode), Count: r.Count, AdminAccess: r.AdminAccess,
		Tolerations: twin.List[resourcev1.DeviceToleration](r.Tolerations),
		Capacity:    twin.Of[resourcev1.CapacityRequirements](r.Capacity),
	}
	return out
}

func requestToV1beta1(r *resourcev1.DeviceRequest) resourcev1beta1.DeviceRequest {
	out := resourcev1beta1.DeviceRequest{Name: r.Name,
		FirstAvailable: twin.List[resourcev1beta1.DeviceSubRequest](r.FirstAvailable)}
	if e := r.Exactly; e != nil {
		out.DeviceClassName, out.AllocationMode, out.Count, out.AdminAccess = e.DeviceClassName,
			resourcev1beta1.DeviceAllocationMode(e.AllocationMode), e.Count, e.AdminAccess
		out.Selectors, out.Tolerations = twin.List[resourcev1beta1.DeviceSelector](e.Selectors),
			twin.List[resourcev1beta1.DeviceToleration](e.Tolerations)
		out.Capacity = twin.Of[resourcev1beta1.CapacityRequirements](e.Capacity)
	}
	return out
}

// SliceFromV1beta1 converts a slice.
func SliceFromV1beta1(s *resourcev1beta1.ResourceSlice) *resourcev1.ResourceSlice {
	out := &resourcev1.ResourceSlice{ObjectMeta: s.ObjectMeta, Spec: resourcev1.ResourceSliceSpec{
		Driver: s.Spec.Driver, Pool: *twin.Of[resourcev1.ResourcePool](&s.Spec.Pool),
		NodeSelector: s.Spec.NodeSelector, PerDeviceNodeSelection: s.Spec.PerDeviceNodeSelection,
		Devices:        converted(s.Spec.Devices, deviceFromV1beta1),
		SharedCounters: twin.List[resourcev1.CounterSet](s.Spec.SharedCounters),
	}}
	if s.Spec.NodeName != "" {
		out.Spec.NodeName = &s.Spec.NodeName
	}
	if s.Spec.AllNodes {
		out.Spec.AllNodes = &s.Spec.AllNodes
	}
	return out
}

// SliceToV1beta1 does the opposite of SliceFromV1beta1.
func SliceToV1beta1(s *resourcev1.ResourceSlice) *resourcev1beta1.ResourceSlice {
	return &resourcev1beta1.ResourceSlice{ObjectMeta: s.ObjectMeta, Spec: resourcev1beta1.ResourceSliceSpec{
		Driver: s.Spec.Driver, Pool: *twin.Of[resourcev1beta1.ResourcePool](&s.Spec.Pool),
		NodeName: ptr.Deref(s.Spec.NodeName, ""), AllNodes: ptr.Deref(s.Spec.AllNodes, false),
		NodeSelector: s.Spec.NodeSelector, PerDeviceNodeSelection: s.Spec.PerDeviceNodeSelection,
		Devices:        converted(s.Spec.Devices, deviceToV1beta1),
		SharedCounters: twin.List[resourcev1beta1.CounterSet](s.Spec.SharedCounters),
	}}
}

func deviceFromV1beta1(d *resourcev1beta1.Device) resourcev1.Device {
	out := resourcev1.Device{Name: d.Name}
	b := d.Basic
	if b == nil {
		return out
	}
	if len(b.Attributes) > 0 {
		out.Attributes = *twin.Of[map[resourcev1.QualifiedName]resourcev1.DeviceAttribute](&b.Attributes)
	}
	if len(b.Capacity) > 0 {
		out.Capacity = *twin.Of[map[resourcev1.QualifiedName]resourcev1.DeviceCapacity](&b.Capacity)
	}
	out.ConsumesCounters, out.Taints = twin.List[resourcev1.DeviceCounterConsumption](b.ConsumesCounters),
		twin.List[resourcev1.DeviceTaint](b.Taints)
	out.NodeName, out.NodeSelector, out.AllNodes = b.NodeName, b.NodeSelector, b.AllNodes
	out.BindsToNode, out.BindingConditions, out.BindingFailureConditions = b.BindsToNode, b.BindingConditions,
		b.BindingFailureConditions
	out.AllowMultipleAllocations = b.AllowMultipleAllocations
	out.NodeAllocatableResourceMappings = *twin.Of[mappings](&b.NodeAllocatableResourceMappings)
	return out
}

func deviceToV1beta1(d *resourcev1.Device) resourcev1beta1.Device {
	b := &resourcev1beta1.BasicDevice{
		ConsumesCounters: twin.List[resourcev1beta1.DeviceCounterConsumption](d.ConsumesCounters),
		Taints:           twin.List[resourcev1beta1.DeviceTaint](d.Taints),
		NodeName:         d.NodeName, NodeSelector: d.NodeSelector, AllNodes: d.AllNodes,
		BindsToNode: d.BindsToNode, BindingConditions: d.BindingConditions,
		BindingFailureConditions:        d.BindingFailureConditions,
		AllowMultipleAllocations:        d.AllowMultipleAllocations,
		NodeAllocatableResourceMappings: *twin.Of[mappingsV1beta1](&d.NodeAllocatableResourceMappings),
	}
	if len(d.Attributes) > 0 {
		b.Attributes = *twin.Of[map[resourcev1beta1.QualifiedName]resourcev1beta1.DeviceAttribute](&d.Attributes)
	}
	if len(d.Capacity) > 0 {
		b.Capacity = *twin.Of[map[resourcev1beta1.QualifiedName]resourcev1beta1.DeviceCapacity](&d.Capacity)
	}
	return resourcev1beta1.Device{Name: d.Name, Basic: b}
}

type (
	mappings        = map[corev1.ResourceName]resourcev1.NodeAllocatableResourceMapping
	mappingsV1beta1 = map[corev1.ResourceName]resourcev1beta1.NodeAllocatableResourceMapping
)

// converted converts the items of a list; what is nil stays so.
func converted[From, To any](in []From, convert func(*From) To) []To {
	if in == nil {
		return nil
	}
	out := make([]To, len(in))
	for i := range in {
		out[i] = convert(&in[i])
	}
	return out
}

// DefaultClaimV1beta1 sets the defaults of a claim.
func DefaultClaimV1beta1(c *resourcev1beta1.ResourceClaim) {
	defaultSpecV1beta1(&c.Spec)
	defaultStatus(twin.Of[resourcev1.ResourceClaimStatus](&c.Status))
}

// DefaultTemplateV1beta1 sets the defaults of the claim that a template makes.
func DefaultTemplateV1beta1(t *resourcev1beta1.ResourceClaimTemplate) {
	defaultSpecV1beta1(&t.Spec.Spec)
}

func defaultSpecV1beta1(s *resourcev1beta1.ResourceClaimSpec) {
	for i := range s.Devices.Requests {
		r := &s.Devices.Requests[i]
		if r.DeviceClassName != "" { // else it is one for what is first available
			defaultCount(twin.Of[resourcev1.DeviceAllocationMode](&r.AllocationMode), &r.Count)
		}
		defaultTolerations(twin.List[resourcev1.DeviceToleration](r.Tolerations))
		defaultSubRequests(twin.List[resourcev1.DeviceSubRequest](r.FirstAvailable))
	}
}
