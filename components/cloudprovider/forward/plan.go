package forward

import (
	"cmp"
	"hash/fnv"
	"net/netip"
	"slices"

	"quintet.dev/quintet/components/cloudprovider/health"
)

// slots is how many parts the connections of an address are divided into. Each part has a node, which it keeps as long
// as that takes packets: connections do not move when other nodes come or go.
const slots = 128

// Balancer is the load balancer of a Service.
type Balancer struct {
	Addresses []netip.Addr
	// HealthPort is the health check node port of a Service whose external traffic policy is Local; 0 is for Cluster.
	HealthPort uint16
	// Sticky is for Services with session affinity: all connections go to one node, which holds the affinity state.
	Sticky bool
}

// Node may take packets.
type Node struct {
	Name      string
	Addresses []netip.Addr // internal ones on the link, the primary one first
}

// Route leads packets for an address to nodes.
type Route struct {
	Address netip.Addr
	Via     []netip.Addr // of the node of each slot; none drops packets
}

// State is what the kernel must hold.
type State struct {
	Routes []Route      // sorted by address
	Nodes  []netip.Addr // addresses of all nodes, whether they take packets or not
}

// planner remembers the slots of each address.
type planner struct{ last map[netip.Addr][]netip.Addr }

// targets are the health checks that a plan depends on.
func targets(balancers map[string]Balancer, nodes []Node, proxyPort uint16) map[health.Target]bool {
	all := map[health.Target]bool{}
	for _, balancer := range balancers {
		for _, node := range nodes {
			all[netip.AddrPortFrom(node.Addresses[0], cmp.Or(balancer.HealthPort, proxyPort))] = true
		}
	}
	return all
}

// plan returns the routes of all balancers.
func (p *planner) plan(
	balancers map[string]Balancer, nodes []Node, proxyPort uint16, healthy func(health.Target) bool,
) []Route {
	var routes []Route
	next := map[netip.Addr][]netip.Addr{}
	for key, balancer := range balancers {
		for _, address := range balancer.Addresses {
			via := eligible(balancer, address, nodes, proxyPort, healthy)
			if balancer.Sticky {
				via = stickyNode(via, p.last[address], key)
			}
			next[address] = assignSlots(p.last[address], via)
			routes = append(routes, Route{Address: address, Via: next[address]})
		}
	}
	p.last = next
	slices.SortFunc(routes, func(a, b Route) int { return a.Address.Compare(b.Address) })
	return routes
}

// eligible are the addresses of the nodes that take packets of a balancer, sorted. Where no kube-proxy is known to be
// healthy, all nodes do under the policy Cluster: packets have nowhere else to go.
func eligible(
	balancer Balancer, address netip.Addr, nodes []Node, proxyPort uint16, healthy func(health.Target) bool,
) []netip.Addr {
	var healthyOnes, all []netip.Addr
	for _, node := range nodes {
		i := slices.IndexFunc(node.Addresses, func(a netip.Addr) bool { return a.Is4() == address.Is4() })
		if i < 0 {
			continue
		}
		all = append(all, node.Addresses[i])
		if healthy(netip.AddrPortFrom(node.Addresses[0], cmp.Or(balancer.HealthPort, proxyPort))) {
			healthyOnes = append(healthyOnes, node.Addresses[i])
		}
	}
	if len(healthyOnes) == 0 && balancer.HealthPort == 0 {
		healthyOnes = all
	}
	slices.SortFunc(healthyOnes, netip.Addr.Compare)
	return slices.Compact(healthyOnes)
}

// stickyNode is the node of a balancer with session affinity: that of before, or the one with the highest hash.
func stickyNode(via, last []netip.Addr, key string) []netip.Addr {
	if len(via) == 0 {
		return nil
	}
	if len(last) > 0 && slices.Contains(via, last[0]) {
		return last[:1]
	}
	weight := func(address netip.Addr) uint64 {
		hash := fnv.New64a()
		_, _ = hash.Write([]byte(key))
		_, _ = hash.Write(address.AsSlice())
		return hash.Sum64()
	}
	return []netip.Addr{slices.MaxFunc(via, func(a, b netip.Addr) int { return cmp.Compare(weight(a), weight(b)) })}
}

// assignSlots gives each slot a node, evenly and with as few changes as that takes.
func assignSlots(last, via []netip.Addr) []netip.Addr {
	if len(via) == 0 {
		return nil
	}
	next := make([]netip.Addr, slots)
	copy(next, last)
	count := map[netip.Addr]int{}
	for _, address := range via {
		count[address] = 0
	}
	base, extra := slots/len(via), slots%len(via)
	for i, address := range next {
		has, known := count[address]
		switch {
		case known && has < base:
		case known && has == base && extra > 0:
			extra--
		default:
			next[i] = netip.Addr{}
			continue
		}
		count[address]++
	}
	for i, address := range next {
		if address.IsValid() {
			continue
		}
		least := slices.MinFunc(via, func(a, b netip.Addr) int { return cmp.Compare(count[a], count[b]) })
		next[i] = least
		count[least]++
	}
	return next
}
