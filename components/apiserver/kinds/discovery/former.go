package discovery

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	discoveryv1beta1 "k8s.io/api/discovery/v1beta1"

	"quintet.dev/quintet/components/apiserver/kinds/twin"
)

// FromV1beta1 converts an endpoint slice.
func FromV1beta1(s *discoveryv1beta1.EndpointSlice) *discoveryv1.EndpointSlice {
	out := &discoveryv1.EndpointSlice{
		ObjectMeta: s.ObjectMeta, AddressType: discoveryv1.AddressType(s.AddressType),
		Ports: twin.List[discoveryv1.EndpointPort](s.Ports),
	}
	if s.Endpoints != nil {
		out.Endpoints = make([]discoveryv1.Endpoint, len(s.Endpoints))
	}
	for i := range s.Endpoints {
		out.Endpoints[i] = endpointFromV1beta1(&s.Endpoints[i])
	}
	return out
}

// endpointFromV1beta1 finds the zone among the topology, in which v1 has it no more, nor the node if it says the same.
func endpointFromV1beta1(e *discoveryv1beta1.Endpoint) discoveryv1.Endpoint {
	out := discoveryv1.Endpoint{
		Addresses: e.Addresses, Conditions: *twin.Of[discoveryv1.EndpointConditions](&e.Conditions),
		Hostname:  e.Hostname,
		TargetRef: e.TargetRef, NodeName: e.NodeName, Hints: twin.Of[discoveryv1.EndpointHints](e.Hints),
	}
	rest := maps.Clone(e.Topology)
	if zone, ok := rest[corev1.LabelTopologyZone]; ok {
		out.Zone = &zone
		delete(rest, corev1.LabelTopologyZone)
	}
	if host, ok := rest[corev1.LabelHostname]; ok && e.NodeName != nil && *e.NodeName == host {
		delete(rest, corev1.LabelHostname)
	}
	if len(rest) > 0 {
		out.DeprecatedTopology = rest
	}
	return out
}
