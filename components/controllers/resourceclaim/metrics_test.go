package resourceclaim

import (
	"maps"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"
)

func TestCountClaims(t *testing.T) {
	free := claim("free")
	free.Status.Allocation = nil
	made, extended := claim("made"), claim("extended")
	made.Annotations = map[string]string{podClaimAnnotation: "e"}
	extended.Annotations = map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"}
	admin := claim("admin")
	admin.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "other"},
		{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{AdminAccess: ptr.To(true)}}}
	got := countClaims([]*resourcev1.ResourceClaim{free, claim("a"), claim("b"), made, extended, admin})
	want := map[[3]string]int{{"false", "false", ""}: 1, {"true", "false", ""}: 2, {"true", "true", ""}: 1,
		{"true", "false", "resource_claim_template"}: 1, {"true", "false", "extended_resource"}: 1}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestClaimNames: the claim for extended resources is one of the pod's.
func TestClaimOfExtendedResources(t *testing.T) {
	p := pod("p", "n")
	if names := claimNames(p); len(names) != 0 {
		t.Errorf("%v", names)
	}
	p.Status.ExtendedResourceClaimStatus = &v1.PodExtendedResourceClaimStatus{ResourceClaimName: "made"}
	if names := claimNames(p); len(names) != 1 || names[0] != "made" {
		t.Errorf("%v", names)
	}
}
