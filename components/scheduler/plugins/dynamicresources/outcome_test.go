package dynamicresources

import (
	"errors"
	"fmt"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
)

// TestOutcomes: a wait is told of for each driver with binding conditions, by how it ended.
func TestOutcomes(t *testing.T) {
	device := func(driver string, conditions ...string) resourcev1.DeviceRequestAllocationResult {
		return resourcev1.DeviceRequestAllocationResult{Driver: driver, BindingConditions: conditions}
	}
	claim := &resourcev1.ResourceClaim{Status: resourcev1.ResourceClaimStatus{Allocation: &resourcev1.AllocationResult{
		Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{
			device("b", "ready"), device("a", "ready"), device("b", "ready"), device("c")}}}}}
	if got := fmt.Sprint(awaited([]*resourcev1.ResourceClaim{claim, {}})); got != "[a b]" {
		t.Error(got)
	}
	for err, want := range map[error]Outcome{nil: Succeeded, errors.New("x"): Failed, errBindingTimeout: TimedOut,
		claimTimeout("c"): TimedOut} {
		if got := outcomeOf(err); got != want {
			t.Errorf("%v: %s", err, got)
		}
	}
}
