package compile

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"quintet.dev/quintet/components/proxy/model"
)

// candidate is an endpoint with what decides whether it gets traffic.
type candidate struct {
	model.Endpoint
	ready, serving, terminating bool
	// forNode and forZone tell whether hints name this node and its zone, hinted whether there are any of the kind.
	forNode, forZone         bool
	hintedNodes, hintedZones bool
}

// candidates are the endpoints of a port in one family, sorted by address. An endpoint of several slices counts once:
// as that of a slice that places it on this node, then as that of a slice where it is ready.
func candidates(
	all []*discoveryv1.EndpointSlice, portName string, protocol v1.Protocol, family v1.IPFamily, node Node,
) []candidate {
	var found []candidate
	for _, slice := range all {
		if string(slice.AddressType) != string(family) {
			continue
		}
		for _, port := range slice.Ports {
			number := deref(port.Port, 0)
			named := deref(port.Name, "") == portName && deref(port.Protocol, v1.ProtocolTCP) == protocol
			if number == 0 || !named {
				continue
			}
			for i := range slice.Endpoints {
				if c, ok := newCandidate(&slice.Endpoints[i], uint16(number), family, node); ok {
					found = append(found, c)
				}
			}
		}
	}
	slices.SortStableFunc(found, func(a, b candidate) int {
		return cmp.Or(a.IP.Compare(b.IP), cmp.Compare(a.Port, b.Port), cmp.Compare(rank(b), rank(a)))
	})
	return slices.CompactFunc(found, func(a, b candidate) bool { return a.Addr() == b.Addr() })
}

// rank orders what several slices say of one endpoint. Candidates of the same rank are equal, so that the order of the
// slices does not matter.
func rank(c candidate) int {
	var r int
	for weight, holds := range []bool{
		c.hintedZones, c.hintedNodes, c.forZone, c.forNode, !c.terminating, c.serving, c.ready, c.Local,
	} {
		if holds {
			r |= 1 << weight
		}
	}
	return r
}

func newCandidate(
	endpoint *discoveryv1.Endpoint, port uint16, family v1.IPFamily, node Node,
) (candidate, bool) {
	if len(endpoint.Addresses) == 0 {
		return candidate{}, false
	}
	ip, ok := parseAddr(endpoint.Addresses[0]) // further ones mean nothing to a proxy (discovery/v1 Endpoint)
	if !ok || familyOf(ip) != family {
		return candidate{}, false
	}
	conditions := endpoint.Conditions
	local := node.Name != "" && deref(endpoint.NodeName, "") == node.Name
	c := candidate{
		Endpoint:    model.Endpoint{IP: ip, Port: port, Local: local},
		ready:       deref(conditions.Ready, true),
		serving:     deref(conditions.Serving, true),
		terminating: deref(conditions.Terminating, false),
	}
	if hints := endpoint.Hints; hints != nil {
		c.hintedNodes, c.hintedZones = len(hints.ForNodes) > 0, len(hints.ForZones) > 0
		c.forNode = slices.Contains(hints.ForNodes, discoveryv1.ForNode{Name: node.Name})
		c.forZone = slices.Contains(hints.ForZones, discoveryv1.ForZone{Name: node.Zone})
	}
	return c, true
}

// choose picks where traffic goes: ready endpoints, or serving ones that terminate where none is ready. Among ready
// ones, hints narrow the choice for traffic whose policy is Cluster
// (https://kubernetes.io/docs/reference/networking/virtual-ips/#traffic-distribution).
func choose(all []candidate, node Node) (cluster, local []model.Endpoint, hasAny bool) {
	isReady := func(c candidate) bool { return c.ready }
	standsIn := func(c candidate) bool { return c.serving && c.terminating }
	isLocal := func(c candidate) bool { return c.Local }

	usable := filter(all, isReady)
	if len(usable) == 0 {
		usable = filter(all, standsIn)
	} else {
		usable = narrow(usable, node)
	}
	here := filter(all, isLocal)
	onThisNode := filter(here, isReady)
	if len(onThisNode) == 0 {
		onThisNode = filter(here, standsIn)
	}
	return endpoints(usable), endpoints(onThisNode), len(usable) > 0 || len(onThisNode) > 0
}

// narrow applies topology hints: those for nodes first, then those for zones. They count only where every endpoint has
// them and at least one is meant for this node.
func narrow(ready []candidate, node Node) []candidate {
	if node.Name != "" && all(ready, func(c candidate) bool { return c.hintedNodes }) {
		if near := filter(ready, func(c candidate) bool { return c.forNode }); len(near) > 0 {
			return near
		}
	}
	if node.Zone != "" && all(ready, func(c candidate) bool { return c.hintedZones }) {
		if near := filter(ready, func(c candidate) bool { return c.forZone }); len(near) > 0 {
			return near
		}
	}
	return ready
}

func endpoints(from []candidate) []model.Endpoint {
	var out []model.Endpoint
	for _, c := range from {
		out = append(out, c.Endpoint)
	}
	return out
}

func filter(from []candidate, keep func(candidate) bool) []candidate {
	var kept []candidate
	for _, c := range from {
		if keep(c) {
			kept = append(kept, c)
		}
	}
	return kept
}

func all(of []candidate, is func(candidate) bool) bool {
	return !slices.ContainsFunc(of, func(c candidate) bool { return !is(c) })
}

func deref[T any](pointer *T, otherwise T) T {
	if pointer == nil {
		return otherwise
	}
	return *pointer
}
