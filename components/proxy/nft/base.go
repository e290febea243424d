package nft

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/knftables"

	"quintet.dev/quintet/internal/nftcheck"
)

// baseChain is attached to a hook.
type baseChain struct {
	name     string
	kind     knftables.BaseChainType
	hook     knftables.BaseChainHook
	priority string
	rules    []string
}

// baseChains lists where packets enter the table. What comes before destination NAT sees the address that the client
// asked for; what comes at the filter's priority sees where the packet really goes.
func baseChains() []baseChain {
	check := func(chain string) string { return "ct state new jump " + chain }
	nat, filter := knftables.NATType, knftables.FilterType
	return []baseChain{
		{"filter-prerouting-pre-dnat", filter, knftables.PreroutingHook, "-110", []string{check(firewallCheck)}},
		{"filter-output-pre-dnat", filter, knftables.OutputHook, "-110", []string{check(firewallCheck)}},
		{"nat-prerouting", nat, knftables.PreroutingHook, "-100", []string{"jump " + servicesChain}},
		{"nat-output", nat, knftables.OutputHook, "-100", []string{"jump " + servicesChain}},
		{"filter-input", filter, knftables.InputHook, "0", []string{check(nodePortCheck), check(serviceCheck)}},
		{"filter-forward", filter, knftables.ForwardHook, "0", []string{check(serviceCheck), check(clusterIPsCheck)}},
		{"filter-output", filter, knftables.OutputHook, "0", []string{check(serviceCheck), check(clusterIPsCheck)}},
		{"nat-postrouting", nat, knftables.PostroutingHook, "100", []string{"jump " + masqueradeChain}},
	}
}

// base adds the table with everything that does not depend on Services.
func (t *Table) base(tx *nftcheck.Transaction) {
	tx.Add(&knftables.Table{Comment: knftables.PtrTo("rules for kube-proxy")})
	t.containers(tx)
	regular := t.regularChains()
	for _, c := range regular {
		tx.Add(&knftables.Chain{Name: c.name})
	}
	for _, c := range regular {
		for _, rule := range c.rules {
			tx.Add(&knftables.Rule{Chain: c.name, Rule: rule})
		}
	}
	for _, c := range baseChains() {
		tx.Add(&knftables.Chain{
			Name: c.name, Type: &c.kind, Hook: &c.hook,
			Priority: knftables.PtrTo(knftables.BaseChainPriority(c.priority)),
		})
		for _, rule := range c.rules {
			tx.Add(&knftables.Rule{Chain: c.name, Rule: rule})
		}
	}
}

// regularChains lists those that packets reach from the base chains.
func (t *Table) regularChains() []chain {
	mark := "0x" + strconv.FormatUint(1<<t.config.MasqueradeBit, 16)
	service := t.ip + " daddr . meta l4proto . th dport vmap @"
	nodePort := t.ip + " daddr @" + nodePortIPs
	if t.config.AllNodePortIPs {
		nodePort = "fib daddr type local " + t.ip + " daddr != " + map[string]string{"ip": "127.0.0.0/8",
			"ip6": "::1"}[t.ip]
	}
	nodePort += " meta l4proto . th dport vmap @"
	return []chain{
		{markChain, []string{"mark set mark or " + mark}},
		{rejectChain, []string{"reject"}},
		{masqueradeChain, []string{
			// The mark is taken away, so that a packet which comes by once more is not translated again.
			fmt.Sprintf("mark and %s != 0 mark set mark xor %s masquerade fully-random", mark, mark),
			fmt.Sprintf("ct status dnat %s saddr . %s daddr . meta l4proto . th dport @%s masquerade fully-random",
				t.ip, t.ip, hairpinSet),
		}},
		{servicesChain, []string{service + serviceIPs, nodePort + serviceNodePorts}},
		{firewallCheck, []string{service + firewallIPs}},
		{serviceCheck, []string{service + noEndpointServices}},
		{nodePortCheck, []string{nodePort + noEndpointNodePorts}},
		{clusterIPsCheck, t.clusterIPRules()},
	}
}

// clusterIPRules refuse what is left of the traffic to cluster IPs: a port that a Service lacks is rejected, an address
// that no Service has is dropped.
func (t *Table) clusterIPRules() []string {
	rules := []string{t.ip + " daddr @" + clusterIPsSet + " reject"}
	var ranges []string
	for _, prefix := range t.config.ServiceCIDRs {
		within := func(other netip.Prefix) bool { return other.Bits() < prefix.Bits() && other.Overlaps(prefix) }
		if prefix.Addr().Is4() == (t.ip == "ip") && !slices.ContainsFunc(t.config.ServiceCIDRs, within) {
			ranges = append(ranges, prefix.Masked().String())
		}
	}
	if len(ranges) > 0 {
		rules = append(rules, fmt.Sprintf("%s daddr { %s } drop", t.ip, strings.Join(slices.Compact(ranges), ", ")))
	}
	return rules
}

// containers adds the maps and sets that ports put their elements into.
func (t *Table) containers(tx *nftcheck.Transaction) {
	ip := t.addressType()
	for _, name := range []string{serviceIPs, noEndpointServices, firewallIPs} {
		tx.Add(&knftables.Map{Name: name, Type: ip + " . inet_proto . inet_service : verdict"})
	}
	for _, name := range []string{serviceNodePorts, noEndpointNodePorts} {
		tx.Add(&knftables.Map{Name: name, Type: "inet_proto . inet_service : verdict"})
	}
	tx.Add(&knftables.Set{Name: clusterIPsSet, Type: ip})
	tx.Add(&knftables.Set{Name: hairpinSet, Type: ip + " . " + ip + " . inet_proto . inet_service"})
	tx.Add(&knftables.Set{Name: nodePortIPs, Type: ip})
	for _, address := range t.nodePortAddresses() {
		tx.Add(&knftables.Element{Set: nodePortIPs, Key: []string{address.String()}})
	}
}

// nodePortAddresses are those of the table's family on which node ports are served, sorted. A connection from the
// loopback address would keep it as its source, which no endpoint can answer.
func (t *Table) nodePortAddresses() []netip.Addr {
	addresses := slices.DeleteFunc(slices.Clone(t.config.NodePortIPs), func(address netip.Addr) bool {
		return address.Is4() != (t.ip == "ip") || address.IsLoopback()
	})
	slices.SortFunc(addresses, netip.Addr.Compare)
	return slices.Compact(addresses)
}

func (t *Table) addressType() string {
	if t.ip == "ip6" {
		return "ipv6_addr"
	}
	return "ipv4_addr"
}

func seconds(n int) *time.Duration { return knftables.PtrTo(time.Duration(n) * time.Second) }
