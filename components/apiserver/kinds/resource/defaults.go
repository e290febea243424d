package resource

import resourcev1 "k8s.io/api/resource/v1"

// DefaultClaim sets the defaults of a claim.
func DefaultClaim(c *resourcev1.ResourceClaim) {
	defaultSpec(&c.Spec)
	defaultStatus(&c.Status)
}

func defaultStatus(s *resourcev1.ResourceClaimStatus) {
	if s.Allocation != nil {
		for i := range s.Allocation.Devices.Results {
			defaultTolerations(s.Allocation.Devices.Results[i].Tolerations)
		}
	}
}

// DefaultTemplate sets the defaults of the claim that a template makes.
func DefaultTemplate(t *resourcev1.ResourceClaimTemplate) { defaultSpec(&t.Spec.Spec) }

func defaultSpec(s *resourcev1.ResourceClaimSpec) {
	for i := range s.Devices.Requests {
		r := &s.Devices.Requests[i]
		if r.Exactly != nil {
			defaultCount(&r.Exactly.AllocationMode, &r.Exactly.Count)
			defaultTolerations(r.Exactly.Tolerations)
		}
		defaultSubRequests(r.FirstAvailable)
	}
}

func defaultSubRequests(list []resourcev1.DeviceSubRequest) {
	for i := range list {
		defaultCount(&list[i].AllocationMode, &list[i].Count)
		defaultTolerations(list[i].Tolerations)
	}
}

// defaultCount asks for one device where nothing else is asked for.
func defaultCount(mode *resourcev1.DeviceAllocationMode, count *int64) {
	if *mode == "" {
		*mode = resourcev1.DeviceAllocationModeExactCount
	}
	if *mode == resourcev1.DeviceAllocationModeExactCount && *count == 0 {
		*count = 1
	}
}

func defaultTolerations(list []resourcev1.DeviceToleration) {
	for i := range list {
		if list[i].Operator == "" {
			list[i].Operator = resourcev1.DeviceTolerationOpEqual
		}
	}
}
