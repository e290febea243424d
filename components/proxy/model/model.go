// Package model is what kube-proxy wants the kernel to do, as data: the compiler makes it of Services and
// EndpointSlices, the packet filter carries it out. Values are immutable once they are handed over.
package model

import (
	"net/netip"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// PortKey identifies a port of a Service in one IP family.
type PortKey struct {
	types.NamespacedName        // of the Service
	Port                 string // name of the port; may be empty
	Protocol             v1.Protocol
	Family               v1.IPFamily
}

// ServicePort is one port of a Service in one IP family, with the endpoints that this node sends its traffic to.
type ServicePort struct {
	Key       PortKey
	ClusterIP netip.Addr
	Port      uint16
	NodePort  uint16 // 0 without one
	// ExternalIPs and LoadBalancerIPs are of the family of Key, sorted. Load-balancer addresses whose ipMode is Proxy
	// are left out: their traffic must leave the node.
	ExternalIPs     []netip.Addr
	LoadBalancerIPs []netip.Addr
	// SourceRanges limits the clients of the load-balancer addresses; nil admits all.
	SourceRanges []netip.Prefix
	// SourceRangesSet is true where the Service names source ranges, if only of the other family.
	SourceRangesSet bool
	// AffinitySeconds is for how long a client stays with its endpoint; 0 without session affinity.
	AffinitySeconds int
	InternalLocal   bool // internalTrafficPolicy: Local
	ExternalLocal   bool // externalTrafficPolicy: Local
	// HealthCheckNodePort is 0 without one.
	HealthCheckNodePort uint16

	// ClusterEndpoints serve traffic whose policy is Cluster: topology hints are applied, terminating endpoints
	// stand in where no other is ready. LocalEndpoints serve traffic whose policy is Local: they are on this node.
	// Both are sorted and without duplicates.
	ClusterEndpoints []Endpoint
	LocalEndpoints   []Endpoint
	// HasAnyEndpoint tells whether the Service has a usable endpoint on any node. Traffic of policy Local with none
	// on this node is dropped if it has and rejected if it has not.
	HasAnyEndpoint bool
}

// Endpoint is where traffic ends: an address and port of a pod, or of whatever an EndpointSlice names.
type Endpoint struct {
	IP    netip.Addr
	Port  uint16
	Local bool // on this node
}

// Addr is the endpoint as address and port.
func (e Endpoint) Addr() netip.AddrPort { return netip.AddrPortFrom(e.IP, e.Port) }
