package routes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"sigs.k8s.io/knftables"
)

// filterTable is the name of the tables in the families ip, ip6 and bridge.
const filterTable = "node-routes"

// Translation is what a node does to its pods' packets on their way.
type Translation struct {
	// Pods are the node's own pod CIDRs: what comes from them and leaves the cluster gets the node's address.
	Pods []netip.Prefix
	// Cluster are the ranges inside which pods keep their addresses: pod CIDRs and addresses of all nodes.
	Cluster []netip.Prefix
	// BridgeMAC is the hardware address of the interface that the node's pods hang on; "" while there is none.
	BridgeMAC string
}

// Filter is the kernel's packet filter, as far as it is ours.
type Filter interface {
	// Apply replaces what is there. It costs little where the filter is as it was left by the last call.
	Apply(context.Context, Translation) error
}

// packetFilter is a Filter over nftables. It belongs to one goroutine.
type packetFilter struct {
	ip, ip6, bridge knftables.Interface
	last            string // what was applied
}

func newPacketFilter() (*packetFilter, error) {
	var f packetFilter
	for family, to := range map[knftables.Family]*knftables.Interface{
		knftables.IPv4Family: &f.ip, knftables.IPv6Family: &f.ip6, knftables.BridgeFamily: &f.bridge,
	} {
		nft, err := knftables.New(family, filterTable, knftables.NoObjectCommentEmulation)
		if err != nil {
			return nil, fmt.Errorf("nftables, family %s (is the program nft installed?): %w", family, err)
		}
		*to = nft
	}
	return &f, nil
}

// Apply implements Filter.
func (f *packetFilter) Apply(ctx context.Context, wanted Translation) error {
	wanted = wanted.normalized()
	as := fmt.Sprint(wanted)
	if as == f.last && f.intact(ctx, wanted) {
		return nil
	}
	f.last = ""
	err := errors.Join(
		masquerade(ctx, f.ip, "ip", wanted, netip.Addr.Is4),
		masquerade(ctx, f.ip6, "ip6", wanted, netip.Addr.Is6),
		routeBridged(ctx, f.bridge, wanted),
	)
	if err == nil {
		f.last = as
	}
	return err
}

// intact tells whether no chain is missing or empty.
func (f *packetFilter) intact(ctx context.Context, wanted Translation) bool {
	has := func(nft knftables.Interface, chain string) bool {
		rules, err := nft.ListRules(ctx, chain)
		return err == nil && len(rules) > 0
	}
	if has4, has6 := wanted.families(); has4 && !has(f.ip, "postrouting") || has6 && !has(f.ip6, "postrouting") {
		return false
	}
	return wanted.BridgeMAC == "" || has(f.bridge, "prerouting")
}

func (t Translation) normalized() Translation {
	t.Pods, t.Cluster = sortedRanges(t.Pods), sortedRanges(t.Cluster)
	return t
}

func (t Translation) families() (has4, has6 bool) {
	for _, prefix := range t.Pods {
		has4, has6 = has4 || prefix.Addr().Is4(), has6 || prefix.Addr().Is6()
	}
	return has4, has6
}

func sortedRanges(ranges []netip.Prefix) []netip.Prefix {
	ranges = slices.Clone(ranges)
	slices.SortFunc(ranges, func(a, b netip.Prefix) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
	})
	return slices.Compact(ranges)
}

// masquerade gives packets that leave the cluster's ranges the address of the node, in one family. Connections that
// another chain translates, e.g. kube-proxy's, are left to it.
func masquerade(
	ctx context.Context, nft knftables.Interface, family string, wanted Translation, is func(netip.Addr) bool,
) error {
	pods, cluster := ofFamily(wanted.Pods, is), ofFamily(wanted.Cluster, is)
	tx := replaceTable(nft)
	if len(pods) > 0 {
		tx.Add(&knftables.Chain{
			Name: "postrouting", Type: knftables.PtrTo(knftables.NATType),
			Hook: knftables.PtrTo(knftables.PostroutingHook), Priority: knftables.PtrTo(knftables.SNATPriority),
		})
		multicast := "224.0.0.0/4"
		if family == "ip6" {
			multicast = "ff00::/8"
		}
		tx.Add(&knftables.Rule{Chain: "postrouting", Rule: knftables.Concat(
			family, "saddr", braces(pods), family, "daddr", "!=", braces(append(cluster,
				multicast)), "masquerade fully-random",
		)})
	}
	return run(ctx, nft, tx)
}

// routeBridged lifts unicast IP frames between pods of this node out of the bridge into IP routing. Otherwise the
// reply of an endpoint to a client on the same node never passes connection tracking, which must translate it back
// (a host's bridge-nf-call-iptables would do so, too, but is not the node's to set), and no network policy sees it.
// Neighbor discovery stays on the link. The rule is for every bridge of the machine, as not all kernels tell them apart
// here; a node has no other.
func routeBridged(ctx context.Context, nft knftables.Interface, wanted Translation) error {
	tx := replaceTable(nft)
	if wanted.BridgeMAC != "" {
		tx.Add(&knftables.Chain{
			Name: "prerouting", Type: knftables.PtrTo(knftables.FilterType),
			Hook:     knftables.PtrTo(knftables.PreroutingHook),
			Priority: knftables.PtrTo(knftables.BaseChainPriority("-300")),
		})
		for _, rule := range []string{
			"meta pkttype { broadcast, multicast } accept",
			"icmpv6 type { nd-router-solicit, nd-router-advert, nd-neighbor-solicit, nd-neighbor-advert, nd-redirect } accept",
			"ether type { ip, ip6 } meta pkttype set host ether daddr set " + wanted.BridgeMAC,
		} {
			tx.Add(&knftables.Rule{Chain: "prerouting", Rule: rule})
		}
	}
	return run(ctx, nft, tx)
}

// replaceTable starts a transaction that deletes the table with its contents and creates it again.
func replaceTable(nft knftables.Interface) *knftables.Transaction {
	tx := nft.NewTransaction()
	tx.Add(&knftables.Table{})
	tx.Delete(&knftables.Table{})
	tx.Add(&knftables.Table{})
	return tx
}

func run(ctx context.Context, nft knftables.Interface, tx *knftables.Transaction) error {
	if err := nft.Run(ctx, tx); err != nil {
		return fmt.Errorf("nftables: %w", err)
	}
	return nil
}

func ofFamily(ranges []netip.Prefix, is func(netip.Addr) bool) []string {
	var texts []string
	for _, prefix := range ranges {
		if is(prefix.Addr()) {
			texts = append(texts, prefix.String())
		}
	}
	return texts
}

func braces(elements []string) string { return "{ " + strings.Join(elements, ", ") + " }" }
