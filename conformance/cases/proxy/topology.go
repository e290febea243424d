package proxy

import (
	"context"
	"fmt"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/conformance/cases/traffic"
	"quintet.dev/quintet/conformance/suite"
)

// topologyCases are about endpoints that are near to their clients.
func topologyCases() []suite.Case {
	return []suite.Case{
		{ID: "kube-proxy/same-node", Run: sameNode, Reference: virtualIPs + "#traffic-distribution",
			Needs: []suite.Feature{suite.TwoNodes},
			Requirement: "With trafficDistribution PreferSameNode a pod MUST reach the endpoints of its own node alone, " +
				"and others when its node has none."},
		{ID: "kube-proxy/zone-hints", Run: zoneHints, Serial: true,
			Reference: "https://kubernetes.io/docs/concepts/services-networking/topology-aware-routing/#how-it-works",
			Requirement: "A pod MUST reach the endpoints alone whose hints name the zone of its node, and all " +
				"when an endpoint has no hint or none is for the zone."},
	}
}

func sameNode(ctx context.Context, t *suite.T) {
	service := traffic.Expose(ctx, t, "web", func(s *corev1.ServiceSpec) {
		s.TrafficDistribution = ptr.To(corev1.ServiceTrafficDistributionPreferSameNode)
	})
	nodes := traffic.Nodes(ctx, t)
	var pods []*corev1.Pod
	for i := range 2 {
		pods = append(pods, traffic.OnNode(traffic.Client(t, fmt.Sprintf("client-%d", i)), nodes[i].Name),
			traffic.OnNode(traffic.Server(t, fmt.Sprintf("server-%d", i), "web"), nodes[i].Name))
	}
	traffic.Start(ctx, t, pods...)
	answers := func(client, server string) {
		attempt := traffic.Get(t, client, service.Spec.ClusterIP, 80)
		suite.WaitFor(ctx, t, "answers to "+client+" of "+server+" alone", traffic.Names(8, attempt),
			Equal([]string{server}))
	}
	answers("client-0", "server-0")
	answers("client-1", "server-1")
	traffic.Remove(ctx, t, "server-0")
	answers("client-0", "server-1")
}

// otherZone is a zone of no node.
const otherZone = "conformance-other-zone"

// zoneHints writes the EndpointSlice itself: how a control plane gives hints is its own choice.
func zoneHints(ctx context.Context, t *suite.T) {
	node := traffic.Nodes(ctx, t)[0]
	zone := zoneOf(ctx, t, node)
	service := traffic.Expose(ctx, t, "manual", traffic.WithoutSelector)
	pods := traffic.Start(ctx, t, traffic.OnNode(traffic.Client(t, "client"), node.Name),
		traffic.Server(t, "first", "web"), traffic.Server(t, "second", "web"))
	first, second := pods["first"].Status.PodIP, pods["second"].Status.PodIP
	traffic.AddSlice(ctx, t, "manual", first, discoveryv1.Endpoint{})
	attempt := traffic.Get(t, "client", service.Spec.ClusterIP, 80)
	for _, hinted := range []struct {
		of        string
		endpoints []discoveryv1.Endpoint
		answer    []string
	}{
		{"the first", []discoveryv1.Endpoint{inZones(first, zone), inZones(second, otherZone)}, []string{"first"}},
		{"the second", []discoveryv1.Endpoint{inZones(first, otherZone), inZones(second, zone, otherZone)},
			[]string{"second"}},
		{"one without hint", []discoveryv1.Endpoint{inZones(first, zone), inZones(second)}, []string{"first", "second"}},
		{"the first again", []discoveryv1.Endpoint{inZones(first, zone), inZones(second, otherZone)}, []string{"first"}},
		{"none of the zone", []discoveryv1.Endpoint{inZones(first, otherZone), inZones(second, otherZone)},
			[]string{"first", "second"}},
	} {
		setEndpoints(ctx, t, "manual", hinted.endpoints)
		suite.WaitFor(ctx, t, "answers with hints for "+hinted.of, traffic.Names(12, attempt), ConsistOf(hinted.answer))
	}
}

// zoneOf is the zone of a node, which gets one for as long as the case runs if it has none.
func zoneOf(ctx context.Context, t *suite.T, node corev1.Node) string {
	if zone := node.Labels[corev1.LabelTopologyZone]; zone != "" {
		return zone
	}
	const zone = "conformance-zone"
	set := func(ctx context.Context, value string) error {
		_, err := t.Client.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType,
			fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, corev1.LabelTopologyZone, value), metav1.PatchOptions{})
		return err
	}
	t.Cleanup(func(ctx context.Context) { _ = set(ctx, "null") })
	t.Must(set(ctx, `"`+zone+`"`), "give node %s a zone", node.Name)
	return zone
}

// inZones is an endpoint with hints for zones, or without any.
func inZones(address string, zones ...string) discoveryv1.Endpoint {
	e := discoveryv1.Endpoint{Addresses: []string{address}}
	for _, zone := range zones {
		if e.Hints == nil {
			e.Hints = &discoveryv1.EndpointHints{}
		}
		e.Hints.ForZones = append(e.Hints.ForZones, discoveryv1.ForZone{Name: zone})
	}
	return e
}

// setEndpoints replaces those of an EndpointSlice.
func setEndpoints(ctx context.Context, t *suite.T, name string, endpoints []discoveryv1.Endpoint) {
	slices := t.Client.DiscoveryV1().EndpointSlices(t.Namespace)
	slice, err := slices.Get(ctx, name, metav1.GetOptions{})
	t.Must(err, "get the EndpointSlice")
	slice.Endpoints = endpoints
	_, err = slices.Update(ctx, slice, metav1.UpdateOptions{})
	t.Must(err, "change the EndpointSlice")
}
