package resource

import (
	"fmt"
	"slices"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestReservations: who uses a claim is told before what was allocated, and of a claim that goes only if it has
// something.
func TestReservations(t *testing.T) {
	users := func(uids ...types.UID) (out []resourcev1.ResourceClaimConsumerReference) {
		for _, uid := range uids {
			out = append(out, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: "p", UID: uid})
		}
		return out
	}
	device := func(request string) *resourcev1.AllocationResult {
		return &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
			Results: []resourcev1.DeviceRequestAllocationResult{
				{Request: request, Driver: "d", Pool: "p", Device: "d"}},
		}}
	}
	const reserved, allocation = "status.reservedFor: Forbidden",
		"status.allocation.devices.results[0].request: Invalid value"
	for _, c := range []struct {
		name    string
		is, was resourcev1.ResourceClaimStatus
		deleted bool
		want    []string
	}{
		{name: "allocated", is: resourcev1.ResourceClaimStatus{Allocation: device("r"), ReservedFor: users("a")}},
		{name: "not allocated", is: resourcev1.ResourceClaimStatus{ReservedFor: users("a")}, deleted: true,
			want: []string{reserved}},
		{name: "to be deleted", deleted: true,
			is:   resourcev1.ResourceClaimStatus{Allocation: device("x"), ReservedFor: users("a", "b")},
			was:  resourcev1.ResourceClaimStatus{ReservedFor: users("a")},
			want: []string{reserved, allocation}},
		{name: "to be deleted, with a user less", deleted: true,
			is:  resourcev1.ResourceClaimStatus{Allocation: device("r"), ReservedFor: users("a")},
			was: resourcev1.ResourceClaimStatus{ReservedFor: users("a", "b")}},
	} {
		is := &resourcev1.ResourceClaim{Status: c.is}
		is.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "r"}}
		if c.deleted {
			is.DeletionTimestamp = &metav1.Time{}
		}
		var got []string
		for _, err := range ValidateStatusUpdate(is, &resourcev1.ResourceClaim{Status: c.was}) {
			got = append(got, err.Field+": "+err.Type.String())
		}
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestInterfaceAddresses: addresses are told in one form only, those of IPv4 not as those of IPv6.
func TestInterfaceAddresses(t *testing.T) {
	network := &resourcev1.NetworkDeviceData{
		IPs: []string{"10.1.2.3/24", "2001:db8::1/64", "::ffff:10.1.2.3/120", "2001:DB8::1/64", "10.1.2.3"}}
	want := []string{
		`ips[2]: Invalid value: "::ffff:10.1.2.3/120": must be in canonical form ("10.1.2.3/24")`,
		`ips[3]: Invalid value: "2001:DB8::1/64": must be in canonical form ("2001:db8::1/64")`,
		`ips[4]: Invalid value: "10.1.2.3": must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)`,
	}
	var got []string
	for _, err := range validateNetwork(network, nil) {
		got = append(got, err.Error())
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}
