package resource

import (
	"context"
	"errors"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// TestClaimStatusFaults: who has no right to a change is told so, whatever else is wrong with it.
func TestClaimStatusFaults(t *testing.T) {
	kind := resourceClaims(api.Deps{
		Authorize: func(context.Context, authorizer.AttributesRecord) error { return errors.New("no") }})
	claim := func(device string) *resourcev1.ResourceClaim {
		c := &resourcev1.ResourceClaim{}
		c.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
			Results: []resourcev1.DeviceRequestAllocationResult{
				{Request: "a", Driver: "d.example.com", Pool: "p", Device: device}},
		}}
		return c
	}
	ctx := request.WithRequestInfo(t.Context(), &request.RequestInfo{Verb: "update"})
	var got []string
	for _, err := range kind.Subresource("status").Strategy.ValidateUpdate(ctx, claim("one"), claim("two")) {
		got = append(got, string(err.Type)+" "+err.Field)
	}
	if len(got) < 2 || got[0] != "FieldValueForbidden status.allocation" ||
		got[len(got)-1] != "FieldValueInvalid status.allocation" {
		t.Errorf("got %q", got)
	}
}
