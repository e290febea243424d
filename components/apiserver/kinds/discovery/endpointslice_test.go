package discovery

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"
)

// TestSliceKeepsNodes: nodes that former versions named in the topology stay known when it is dropped.
func TestSliceKeepsNodes(t *testing.T) {
	slice := func(nodes ...string) *discoveryv1.EndpointSlice {
		s := &discoveryv1.EndpointSlice{}
		for _, n := range nodes {
			s.Endpoints = append(s.Endpoints,
				discoveryv1.Endpoint{DeprecatedTopology: map[string]string{corev1.LabelHostname: n}})
		}
		return s
	}
	old, obj := slice("a", "b", "B_", ""), slice("b", "c", "B_", "", "a")
	obj.Endpoints[4].NodeName = ptr.To("own")
	endpointSlices().Strategy.PrepareUpdate(t.Context(), obj, old)
	var got []string
	for _, e := range obj.Endpoints {
		if e.DeprecatedTopology != nil {
			t.Errorf("topology %v", e.DeprecatedTopology)
		}
		got = append(got, ptr.Deref(e.NodeName, "none"))
	}
	if want := []string{"b", "none", "none", "none", "own"}; !slices.Equal(got, want) {
		t.Errorf("got nodes %q, want %q", got, want)
	}
	same := slice("a")
	if endpointSlices().Strategy.PrepareUpdate(t.Context(), same,
		slice("a")); same.Endpoints[0].DeprecatedTopology == nil {
		t.Error("endpoints that stay lost their topology")
	}
}
