package hostports

import (
	"net/netip"
	"strconv"
	"strings"

	"sigs.k8s.io/knftables"
)

// Names of the table in the families ip and ip6, and of what it holds.
const (
	tableName = "kubelet-hostports"

	portsMap     = "ports"      // by protocol and port, on all addresses
	addressedMap = "addr-ports" // by address, protocol and port
	podsSet      = "pods"
	hairpinSet   = "hairpins" // pairs of a pod's address with itself
	portsChain   = "host-ports"

	preroutingChain  = "prerouting"
	outputChain      = "output"
	postroutingChain = "postrouting"
	inputChain       = "input"

	// afterServices is behind the chains of kube-proxy. The output hook does not know names of priorities.
	afterServices = "-90"
)

// family is what differs between the two families of addresses.
type family struct {
	name     knftables.Family
	address  string // type of an address
	loopback string
	is       func(netip.Addr) bool
}

func families() []family {
	return []family{
		{knftables.IPv4Family, "ipv4_addr", "127.0.0.0/8", netip.Addr.Is4},
		{knftables.IPv6Family, "ipv6_addr", "::1", netip.Addr.Is6},
	}
}

// of lists the mappings of the family. Of two of one port only the first is kept.
func (f family) of(mappings []Mapping) []Mapping {
	type port struct {
		protocol string
		host     netip.Addr
		number   uint16
	}
	taken := map[port]bool{}
	var own []Mapping
	for _, m := range mappings {
		key := port{string(m.Protocol), m.HostIP, m.HostPort}
		if f.is(m.Target.Addr()) && !taken[key] {
			taken[key] = true
			own = append(own, m)
		}
	}
	return own
}

// compile lists what the family's table holds for mappings of this family, in the order in which it is added.
//
// Services come first where a node port has the same number: the chains are behind those of kube-proxy. A pod that
// reaches itself through the node gets an answer only if the packet seems to come from the node, and so does a process
// of the node that uses the loopback, which no packet may leave the node with. Only the node's own processes reach
// ports by the loopback; IPv6 has no way out of it at all.
func (f family) compile(mappings []Mapping) []knftables.Object {
	ip := string(f.name)
	local := "fib daddr type local jump " + portsChain
	notLoopback := ip + " daddr != " + f.loopback + " "
	objects := []knftables.Object{
		&knftables.Table{Comment: knftables.PtrTo("host ports of pods")},
		&knftables.Map{Name: portsMap, Type: "inet_proto . inet_service : " + f.address + " . inet_service"},
		&knftables.Map{
			Name: addressedMap, Type: f.address + " . inet_proto . inet_service : " + f.address + " . inet_service",
		},
		&knftables.Set{Name: podsSet, Type: f.address},
		&knftables.Set{Name: hairpinSet, Type: f.address + " . " + f.address},
		&knftables.Chain{Name: portsChain},
		rule(portsChain, "dnat to "+ip+" daddr . meta l4proto . th dport map @"+addressedMap),
		rule(portsChain, "dnat to meta l4proto . th dport map @"+portsMap),
		chain(preroutingChain, knftables.NATType, knftables.PreroutingHook, afterServices),
		rule(preroutingChain, notLoopback+local),
		chain(outputChain, knftables.NATType, knftables.OutputHook, afterServices),
		chain(postroutingChain, knftables.NATType, knftables.PostroutingHook, knftables.SNATPriority),
		rule(postroutingChain, "ct status dnat "+ip+" saddr . "+ip+" daddr @"+hairpinSet+" masquerade"),
	}
	if f.name == knftables.IPv6Family {
		objects = append(objects, rule(outputChain, notLoopback+local))
	} else {
		objects = append(objects,
			rule(outputChain, local),
			rule(postroutingChain, "ct status dnat ip saddr "+f.loopback+" ip daddr @"+podsSet+" masquerade"),
			chain(inputChain, knftables.FilterType, knftables.InputHook, knftables.FilterPriority),
			rule(inputChain, `iifname != "lo" ip daddr `+f.loopback+" ct status ! dnat drop"),
		)
	}
	return append(objects, elements(mappings)...)
}

func rule(chain, text string) *knftables.Rule { return &knftables.Rule{Chain: chain, Rule: text} }

func chain(
	name string, kind knftables.BaseChainType, hook knftables.BaseChainHook, priority knftables.BaseChainPriority,
) *knftables.Chain {
	return &knftables.Chain{Name: name, Type: &kind, Hook: &hook, Priority: &priority}
}

func elements(mappings []Mapping) []knftables.Object {
	var list []knftables.Object
	pods := map[netip.Addr]bool{}
	for _, m := range mappings {
		e := &knftables.Element{
			Map: portsMap, Key: []string{strings.ToLower(string(m.Protocol)), strconv.Itoa(int(m.HostPort))},
			Value: []string{m.Target.Addr().String(), strconv.Itoa(int(m.Target.Port()))},
		}
		if m.HostIP.IsValid() {
			e.Map, e.Key = addressedMap, append([]string{m.HostIP.String()}, e.Key...)
		}
		list = append(list, e)
		if ip := m.Target.Addr(); !pods[ip] {
			pods[ip] = true
			list = append(list,
				&knftables.Element{Set: podsSet, Key: []string{ip.String()}},
				&knftables.Element{Set: hairpinSet, Key: []string{ip.String(), ip.String()}},
			)
		}
	}
	return list
}
