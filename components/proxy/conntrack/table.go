// Package conntrack removes the kernel's entries of UDP connections to Services whose endpoint is gone. A client that
// keeps sending from the same port would keep them alive, and its datagrams would be lost.
package conntrack

import (
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/proxy/model"
)

// Flow is what counts of a conntrack entry.
type Flow struct {
	Protocol    uint8          // IPPROTO_UDP and so on
	Destination netip.AddrPort // where the client sends to
	ReplySource netip.Addr     // where the answers come from
}

// Kernel has the conntrack entries.
type Kernel interface {
	// Delete removes the flows of a family for which stale holds, and returns how many it removed.
	Delete(family v1.IPFamily, stale func(Flow) bool) (int, error)
}

// endpoints are addresses that a connection may stay with.
type endpoints map[netip.Addr]struct{}

type nodePort struct {
	family v1.IPFamily
	port   uint16
}

// Table tells the endpoints of UDP Services by where clients send to.
type Table struct {
	addresses map[netip.AddrPort]endpoints
	nodePorts map[nodePort]endpoints
}

// NewTable returns the Table of the UDP ports among those given. The function serving returns the addresses of a port's
// serving endpoints, on any node and regardless of traffic policies, hints and termination: connections to them go on,
// as those over TCP do. The entries of a port without such endpoints are left alone.
func NewTable(ports []model.ServicePort, serving func(model.PortKey) []netip.Addr) *Table {
	t := &Table{addresses: map[netip.AddrPort]endpoints{}, nodePorts: map[nodePort]endpoints{}}
	for i := range ports {
		if ports[i].Key.Protocol == v1.ProtocolUDP {
			t.add(&ports[i], serving(ports[i].Key))
		}
	}
	return t
}

func (t *Table) add(p *model.ServicePort, serving []netip.Addr) {
	if len(serving) == 0 {
		return
	}
	of := endpoints{}
	for _, ip := range serving {
		of[ip] = struct{}{}
	}
	t.addresses[netip.AddrPortFrom(p.ClusterIP, p.Port)] = of
	for _, ips := range [][]netip.Addr{p.LoadBalancerIPs, p.ExternalIPs} {
		for _, ip := range ips {
			t.addresses[netip.AddrPortFrom(ip, p.Port)] = of
		}
	}
	if p.NodePort != 0 {
		t.nodePorts[nodePort{p.Key.Family, p.NodePort}] = of
	}
}

// Stale tells whether a flow goes to a Service but ends at none of its endpoints. A node port is one at any address.
func (t *Table) Stale(flow Flow) bool {
	if flow.Protocol != unix.IPPROTO_UDP {
		return false
	}
	if of, ok := t.addresses[flow.Destination]; ok && !of.has(flow.ReplySource) {
		return true
	}
	family := v1.IPv6Protocol
	if flow.Destination.Addr().Is4() {
		family = v1.IPv4Protocol
	}
	of, ok := t.nodePorts[nodePort{family, flow.Destination.Port()}]
	return ok && !of.has(flow.ReplySource)
}

func (e endpoints) has(ip netip.Addr) bool {
	_, ok := e[ip]
	return ok
}

// Clean removes the stale flows of a family and returns how many it removed.
func Clean(kernel Kernel, family v1.IPFamily, table *Table) (int, error) {
	if len(table.addresses) == 0 && len(table.nodePorts) == 0 {
		return 0, nil // spares the dump
	}
	n, err := kernel.Delete(family, table.Stale)
	if err != nil {
		return n, fmt.Errorf("deleting stale conntrack entries, family %s: %w", family, err)
	}
	return n, nil
}
