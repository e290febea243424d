package resource

import (
	"context"
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// claim is one of a device on node n, with what its driver tells if asked for.
func claim(allocated, told bool) *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{}
	c.Namespace = "default"
	if allocated {
		c.Status.Allocation = &resourcev1.AllocationResult{
			Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{
				{Request: "a", Driver: "d.example.com", Pool: "p", Device: "d0"},
			}},
			NodeSelector: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
					{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"n"}},
				}}}},
		}
	}
	if told {
		c.Status.Devices = []resourcev1.AllocatedDeviceStatus{{Driver: "d.example.com", Pool: "p", Device: "d0"}}
	}
	return c
}

func TestStatusRights(t *testing.T) {
	driver := func(node string) user.Info {
		return &user.DefaultInfo{Name: "system:serviceaccount:default:driver",
			Extra: map[string][]string{serviceaccount.NodeNameKey: {node}}}
	}
	jane := &user.DefaultInfo{Name: "jane"}
	const (
		bind      = "update resourceclaims/binding  "
		anywhere  = "arbitrary-node:update resourceclaims/driver default d.example.com"
		onTheNode = "associated-node:update resourceclaims/driver default d.example.com"
	)
	for _, c := range []struct {
		name     string
		user     user.Info
		new, old *resourcev1.ResourceClaim
		asked    []string // when nothing is allowed
	}{
		{"nothing changes", jane, claim(true, true), claim(true, true), nil},
		{"binding", jane, claim(true, false), claim(false, false), []string{bind}},
		{"a driver tells", jane, claim(true, true), claim(true, false), []string{anywhere}},
		{"a driver tells no more", jane, claim(true, false), claim(true, true), []string{anywhere}},
		{"what was told goes with the device", jane, claim(false, false), claim(true, true), []string{bind}},
		{"a driver on the node", driver("n"), claim(true, true), claim(true, false), []string{onTheNode, anywhere}},
		{"a driver on another node", driver("m"), claim(true, true), claim(true, false), []string{anywhere}},
		{"a driver tells of what goes", driver("n"), claim(false, true), claim(true, false), []string{bind}},
		{"both", driver("n"), claim(true, true), claim(false, false), []string{bind, onTheNode, anywhere}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var asked []string
			ctx := request.WithUser(request.WithRequestInfo(t.Context(), &request.RequestInfo{Verb: "update"}), c.user)
			try := func(answer error) field.ErrorList {
				asked = nil
				return Access{Authorize: func(_ context.Context, a authorizer.AttributesRecord) error {
					asked = append(asked, a.Verb+" "+a.Resource+"/"+a.Subresource+" "+a.Namespace+" "+a.Name)
					return answer
				}}.Status(ctx, c.new, c.old)
			}
			errs := try(errors.New("no"))
			if !slices.Equal(asked, c.asked) {
				t.Errorf("asked %q, want %q", asked, c.asked)
			}
			if (len(errs) > 0) != (len(c.asked) > 0) {
				t.Errorf("refused: %v", errs)
			}
			if errs := try(nil); len(errs) > 0 {
				t.Errorf("refused what is allowed: %v", errs)
			}
		})
	}
}

func TestAdminAccessNeedsAMarkedNamespace(t *testing.T) {
	yes := true
	spec := &resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{
		{Name: "a", Exactly: &resourcev1.ExactDeviceRequest{AdminAccess: &yes}},
	}}}
	for labels, want := range map[string]int{"true": 0, "false": 1} {
		a := Access{NamespaceLabels: func(_ context.Context, name string) (map[string]string, error) {
			return map[string]string{resourcev1.DRAAdminNamespaceLabelKey: labels}, nil
		}}
		if errs := a.AdminRequests(t.Context(), "ns", spec, field.NewPath("spec")); len(errs) != want {
			t.Errorf("%s: %v", labels, errs)
		}
		granted := claim(true, false)
		granted.Status.Allocation.Devices.Results[0].AdminAccess = &yes
		if errs := a.AdminResults(t.Context(), granted, claim(false, false)); len(errs) != want {
			t.Errorf("%s: %v", labels, errs)
		}
		if errs := a.AdminResults(t.Context(), granted, granted); len(errs) != 0 {
			t.Errorf("%s: refused what was granted: %v", labels, errs)
		}
	}
}
