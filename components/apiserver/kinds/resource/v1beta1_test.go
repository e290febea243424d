package resource

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"

	"quintet.dev/quintet/components/apiserver/kinds/twin"
)

// TestPartsOfV1beta1AreAlike: what is not converted is laid out as in v1.
func TestPartsOfV1beta1AreAlike(t *testing.T) {
	for _, pair := range [][2]any{
		{resourcev1.ResourceClaimStatus{}, resourcev1beta1.ResourceClaimStatus{}},
		{resourcev1.DeviceConstraint{}, resourcev1beta1.DeviceConstraint{}},
		{resourcev1.DeviceClaimConfiguration{}, resourcev1beta1.DeviceClaimConfiguration{}},
		{resourcev1.DeviceSubRequest{}, resourcev1beta1.DeviceSubRequest{}},
		{resourcev1.DeviceSelector{}, resourcev1beta1.DeviceSelector{}},
		{resourcev1.DeviceToleration{}, resourcev1beta1.DeviceToleration{}},
		{resourcev1.CapacityRequirements{}, resourcev1beta1.CapacityRequirements{}},
		{resourcev1.ResourcePool{}, resourcev1beta1.ResourcePool{}},
		{resourcev1.CounterSet{}, resourcev1beta1.CounterSet{}},
		{resourcev1.DeviceAttribute{}, resourcev1beta1.DeviceAttribute{}},
		{resourcev1.DeviceCapacity{}, resourcev1beta1.DeviceCapacity{}},
		{resourcev1.DeviceCounterConsumption{}, resourcev1beta1.DeviceCounterConsumption{}},
		{resourcev1.DeviceTaint{}, resourcev1beta1.DeviceTaint{}},
		{mappings{}, mappingsV1beta1{}},
	} {
		if a, b := reflect.TypeOf(pair[0]), reflect.TypeOf(pair[1]); !twin.Alike(a, b) {
			t.Errorf("%s and %s", a, b)
		}
	}
}

// TestRequestsOfV1beta1: what a request says itself is what it asks for exactly; one that says nothing offers a choice.
func TestRequestsOfV1beta1(t *testing.T) {
	for _, test := range []struct {
		name string
		old  resourcev1beta1.DeviceRequest
		want resourcev1.DeviceRequest
	}{
		{"a class, defaulted", resourcev1beta1.DeviceRequest{Name: "a", DeviceClassName: "c"},
			resourcev1.DeviceRequest{Name: "a",
				Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "c", AllocationMode: "ExactCount", Count: 1}}},
		{"no class", resourcev1beta1.DeviceRequest{Name: "a", Count: 2},
			resourcev1.DeviceRequest{Name: "a", Exactly: &resourcev1.ExactDeviceRequest{Count: 2}}},
		{"a choice", resourcev1beta1.DeviceRequest{Name: "a",
			FirstAvailable: []resourcev1beta1.DeviceSubRequest{{Name: "b", DeviceClassName: "c"}}},
			resourcev1.DeviceRequest{Name: "a",
				FirstAvailable: []resourcev1.DeviceSubRequest{
					{Name: "b", DeviceClassName: "c", AllocationMode: "ExactCount", Count: 1}}}},
		{"both", resourcev1beta1.DeviceRequest{Name: "a", AllocationMode: "All",
			FirstAvailable: []resourcev1beta1.DeviceSubRequest{}},
			resourcev1.DeviceRequest{Name: "a", Exactly: &resourcev1.ExactDeviceRequest{AllocationMode: "All"},
				FirstAvailable: []resourcev1.DeviceSubRequest{}}},
		{"nothing", resourcev1beta1.DeviceRequest{Name: "a"}, resourcev1.DeviceRequest{Name: "a"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			claim := &resourcev1beta1.ResourceClaim{}
			claim.Spec.Devices.Requests = []resourcev1beta1.DeviceRequest{test.old}
			DefaultClaimV1beta1(claim)
			if diff := cmp.Diff(test.want, ClaimFromV1beta1(claim).Spec.Devices.Requests[0]); diff != "" {
				t.Error(diff)
			}
			template := &resourcev1beta1.ResourceClaimTemplate{}
			template.Spec.Spec.Devices.Requests = []resourcev1beta1.DeviceRequest{test.old}
			DefaultTemplateV1beta1(template)
			if diff := cmp.Diff(test.want, TemplateFromV1beta1(template).Spec.Spec.Devices.Requests[0]); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestSlicesOfV1beta1: no node is none, and a device without details has none.
func TestSlicesOfV1beta1(t *testing.T) {
	old := &resourcev1beta1.ResourceSlice{}
	old.Spec.Devices = []resourcev1beta1.Device{{Name: "a"}}
	got := SliceFromV1beta1(old)
	if got.Spec.NodeName != nil || got.Spec.AllNodes != nil || got.Spec.Devices[0].Attributes != nil {
		t.Errorf("%+v", got.Spec)
	}
	old.Spec.NodeName, old.Spec.AllNodes = "n", true
	if got = SliceFromV1beta1(old); *got.Spec.NodeName != "n" || !*got.Spec.AllNodes {
		t.Errorf("%+v", got.Spec)
	}
	back := SliceToV1beta1(got)
	if back.Spec.NodeName != "n" || !back.Spec.AllNodes || back.Spec.Devices[0].Basic == nil {
		t.Errorf("%+v", back.Spec)
	}
}
