package routes

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	"sigs.k8s.io/knftables"

	"quintet.dev/quintet/internal/nftcheck"
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
	nft    knftables.Interface // of all families
	tables []*familyTable
}

// familyTable is ours in one family.
type familyTable struct {
	family  knftables.Family
	compile func(Translation) []knftables.Object
	kernel  nftcheck.Kernel

	last    string            // what was written last, or to be
	written bool              // that it was
	checker *nftcheck.Checker // of what was
}

func newPacketFilter() (*packetFilter, error) {
	nft, err := knftables.New("", "", knftables.NoObjectCommentEmulation)
	if err != nil {
		return nil, fmt.Errorf("nftables (is the program nft installed?): %w", err)
	}
	return &packetFilter{nft: nft, tables: tables(func(number uint8, _ knftables.Family) nftcheck.Kernel {
		return nftcheck.Table{Family: number, Name: filterTable}
	})}, nil
}

// tables are ours as kernel lists them.
func tables(kernel func(number uint8, family knftables.Family) nftcheck.Kernel) []*familyTable {
	return []*familyTable{{
		family: knftables.IPv4Family, kernel: kernel(unix.NFPROTO_IPV4, knftables.IPv4Family),
		compile: func(t Translation) []knftables.Object { return masquerade(knftables.IPv4Family, t, netip.Addr.Is4) },
	}, {
		family: knftables.IPv6Family, kernel: kernel(unix.NFPROTO_IPV6, knftables.IPv6Family),
		compile: func(t Translation) []knftables.Object { return masquerade(knftables.IPv6Family, t, netip.Addr.Is6) },
	}, {
		family: knftables.BridgeFamily, kernel: kernel(unix.NFPROTO_BRIDGE, knftables.BridgeFamily), compile: routeBridged,
	}}
}

// Apply implements Filter. What changes, of all families, goes in one transaction: each start of nft costs more than
// all rules do.
func (f *packetFilter) Apply(ctx context.Context, wanted Translation) error {
	wanted = wanted.normalized()
	tx := f.nft.NewTransaction()
	var changed []*familyTable
	for _, t := range f.tables {
		objects := t.compile(wanted)
		text := render(objects)
		if t.written && text == t.last && t.intact(objects) {
			continue
		}
		t.replace(tx, objects)
		t.last, t.written = text, false
		changed = append(changed, t)
	}
	if len(changed) == 0 {
		return nil
	}
	err := f.nft.Run(ctx, tx)
	if err != nil {
		err = fmt.Errorf("nftables: %w", err)
	}
	for _, t := range changed {
		t.written, t.checker = err == nil, nftcheck.New(t.kernel)
	}
	return err
}

// intact tells whether the table holds objects, as far as that can be seen. A table without any is not looked at.
func (t *familyTable) intact(objects []knftables.Object) bool {
	if len(objects) == 0 {
		return true
	}
	parts := map[string]int{}
	for _, object := range objects {
		if rule, ok := object.(*knftables.Rule); ok {
			parts[rule.Chain]++
		}
	}
	ok, err := t.checker.Intact(func() map[string]int { return parts }, func(string) bool { return false })
	return ok && err == nil
}

// replace has a transaction delete the table with its contents, and create it again if there is anything to be in it.
func (t *familyTable) replace(tx *knftables.Transaction, objects []knftables.Object) {
	own := func() *knftables.Table { return &knftables.Table{Family: t.family, Name: filterTable} }
	tx.Add(own())
	tx.Delete(own())
	if len(objects) == 0 {
		return
	}
	tx.Add(own())
	for _, object := range objects {
		tx.Add(object)
	}
}

// render tells objects apart from others.
func render(objects []knftables.Object) string {
	var text strings.Builder
	for _, object := range objects {
		switch o := object.(type) {
		case *knftables.Chain:
			fmt.Fprintln(&text, "chain", o.Name)
		case *knftables.Rule:
			fmt.Fprintln(&text, o.Rule)
		}
	}
	return text.String()
}

func (t Translation) normalized() Translation {
	t.Pods, t.Cluster = sortedRanges(t.Pods), sortedRanges(t.Cluster)
	return t
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
func masquerade(family knftables.Family, wanted Translation, is func(netip.Addr) bool) []knftables.Object {
	pods, cluster := ofFamily(wanted.Pods, is), ofFamily(wanted.Cluster, is)
	if len(pods) == 0 {
		return nil
	}
	multicast := "224.0.0.0/4"
	if family == knftables.IPv6Family {
		multicast = "ff00::/8"
	}
	const chain = "postrouting"
	return []knftables.Object{
		&knftables.Chain{
			Family: family, Table: filterTable, Name: chain, Type: knftables.PtrTo(knftables.NATType),
			Hook: knftables.PtrTo(knftables.PostroutingHook), Priority: knftables.PtrTo(knftables.SNATPriority),
		},
		&knftables.Rule{Family: family, Table: filterTable, Chain: chain, Rule: knftables.Concat(
			family, "saddr", braces(pods), family, "daddr", "!=", braces(append(cluster, multicast)),
			"masquerade fully-random",
		)},
	}
}

// routeBridged lifts unicast IP frames between pods of this node out of the bridge into IP routing. Otherwise the
// reply of an endpoint to a client on the same node never passes connection tracking, which must translate it back
// (a host's bridge-nf-call-iptables would do so, too, but is not the node's to set), and no network policy sees it.
// Neighbor discovery stays on the link. The rule is for every bridge of the machine, as not all kernels tell them apart
// here; a node has no other.
func routeBridged(wanted Translation) []knftables.Object {
	if wanted.BridgeMAC == "" {
		return nil
	}
	const chain = "prerouting"
	objects := []knftables.Object{&knftables.Chain{
		Family: knftables.BridgeFamily, Table: filterTable, Name: chain, Type: knftables.PtrTo(knftables.FilterType),
		Hook:     knftables.PtrTo(knftables.PreroutingHook),
		Priority: knftables.PtrTo(knftables.BaseChainPriority("-300")),
	}}
	for _, rule := range []string{
		"meta pkttype { broadcast, multicast } accept",
		"icmpv6 type { nd-router-solicit, nd-router-advert, nd-neighbor-solicit, nd-neighbor-advert, nd-redirect } accept",
		"ether type { ip, ip6 } meta pkttype set host ether daddr set " + wanted.BridgeMAC,
	} {
		objects = append(objects, &knftables.Rule{
			Family: knftables.BridgeFamily, Table: filterTable, Chain: chain, Rule: rule,
		})
	}
	return objects
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
