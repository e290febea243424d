package dynamicresources

import (
	"errors"
	"fmt"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/sets"
)

// ready tells whether all binding conditions of a claim's devices are true, and returns an error once one has failed
// (KEP-5007).
func ready(claim *resourcev1.ResourceClaim) (bool, error) {
	if claim.Status.Allocation == nil {
		return false, nil
	}
	results := claim.Status.Allocation.Devices.Results
	for i := range results {
		if len(results[i].BindingConditions) == 0 {
			continue
		}
		status := statusOf(claim, &results[i])
		if status == nil {
			return false, nil
		}
		for _, condition := range results[i].BindingFailureConditions {
			if why := meta.FindStatusCondition(status.Conditions, condition); why != nil && why.Status == "True" {
				return false, fmt.Errorf("claim %s binding failed: reason=%s, message=%q", claim.Name, why.Reason,
					why.Message)
			}
		}
		for _, condition := range results[i].BindingConditions {
			if !meta.IsStatusConditionTrue(status.Conditions, condition) {
				return false, nil
			}
		}
	}
	return true, nil
}

func statusOf(claim *resourcev1.ResourceClaim,
	result *resourcev1.DeviceRequestAllocationResult) *resourcev1.AllocatedDeviceStatus {
	for i := range claim.Status.Devices {
		status := &claim.Status.Devices[i]
		if status.Driver == result.Driver && status.Pool == result.Pool && status.Device == result.Device {
			return status
		}
	}
	return nil
}

// waits tells whether a claim has a device with binding conditions.
func waits(claim *resourcev1.ResourceClaim) bool {
	if claim.Status.Allocation == nil {
		return false
	}
	for i := range claim.Status.Allocation.Devices.Results {
		if len(claim.Status.Allocation.Devices.Results[i].BindingConditions) > 0 {
			return true
		}
	}
	return false
}

// timedOut tells whether a claim's devices had more than timeout since their allocation to become ready.
func timedOut(claim *resourcev1.ResourceClaim, timeout time.Duration, now time.Time) bool {
	return waits(claim) && claim.Status.Allocation.AllocationTimestamp != nil &&
		claim.Status.Allocation.AllocationTimestamp.Add(timeout).Before(now)
}

// gaveUp tells whether other devices should be tried for the claim.
func gaveUp(claim *resourcev1.ResourceClaim, timeout time.Duration, now time.Time) bool {
	is, err := ready(claim)
	return err != nil || !is && timedOut(claim, timeout, now)
}

// Outcome is how a wait for binding conditions ended, as metrics call it.
type Outcome string

// The outcomes.
const (
	Succeeded Outcome = "success"
	Failed    Outcome = "failure"
	TimedOut  Outcome = "timeout"
)

func outcomeOf(err error) Outcome {
	switch {
	case err == nil:
		return Succeeded
	case errors.Is(err, errBindingTimeout):
		return TimedOut
	default:
		return Failed
	}
}

// awaited returns the drivers of devices with binding conditions, each once, in order.
func awaited(claims []*resourcev1.ResourceClaim) []string {
	drivers := sets.New[string]()
	for _, claim := range claims {
		if claim.Status.Allocation == nil {
			continue
		}
		for i := range claim.Status.Allocation.Devices.Results {
			if result := &claim.Status.Allocation.Devices.Results[i]; len(result.BindingConditions) > 0 {
				drivers.Insert(result.Driver)
			}
		}
	}
	return sets.List(drivers)
}
