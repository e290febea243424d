// Package nft carries the model of kube-proxy out in the kernel, through nftables: one table per IP family, which is
// changed in single transactions that hold just what differs from the last one.
package nft

import (
	"context"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/knftables"

	"quintet.dev/quintet/components/proxy/model"
	"quintet.dev/quintet/internal/nftcheck"
)

// Config of a table.
type Config struct {
	Family v1.IPFamily
	// MasqueradeBit is the bit of the packet mark for masquerading.
	MasqueradeBit int
	// MasqueradeAll gives all traffic to cluster IPs the node's address.
	MasqueradeAll bool
	// LocalTraffic matches packets that come from this node's pods or, where those are unknown, from the cluster's,
	// and NotLocalTraffic all others, as conditions of nftables. Both are "" where both are unknown.
	LocalTraffic, NotLocalTraffic string
	// NodePortIPs are the addresses of this node on which node ports are served; AllNodePortIPs takes all of them but
	// the loopback.
	NodePortIPs    []netip.Addr
	AllNodePortIPs bool
	// ServiceCIDRs are the ranges that cluster IPs are allocated from, sorted: traffic to an address in them that no
	// Service has is dropped. Those of the other family are passed over.
	ServiceCIDRs []netip.Prefix
}

// Outcome tells what a Sync did.
type Outcome struct {
	// Full is true where everything was written, not just what differs.
	Full bool
	// CleanupErr is why objects that nothing refers to any more are still there; the next Sync tries again.
	CleanupErr error
}

// Table is kube-proxy's table of one family. It belongs to one goroutine.
type Table struct {
	config  Config
	nft     knftables.Interface
	checker *nftcheck.Checker
	ip      string // the family's keyword
	applied map[model.PortKey]rendered
	shared  map[element]int // how many ports use it
	claims  claims
	// whole is false until everything is in the kernel.
	whole bool
	// desired keeps the ports for the case that everything must be rewritten.
	desired map[model.PortKey]model.ServicePort
	stale   leftovers
}

// leftovers are objects that nothing refers to any more.
type leftovers struct{ chains, sets []string }

func (l leftovers) has(name string) bool {
	return slices.Contains(l.chains, name) || slices.Contains(l.sets, name)
}

// New returns a table that is not written yet.
func New(config Config, nft knftables.Interface, kernel nftcheck.Kernel) *Table {
	return &Table{
		config: config, nft: nft, checker: nftcheck.New(kernel), ip: keyword(config.Family),
		applied: map[model.PortKey]rendered{}, shared: map[element]int{},
		desired: map[model.PortKey]model.ServicePort{},
		claims:  newClaims(),
	}
}

// Sync applies changes: in one transaction that holds what differs from the last one, or everything after a failure, a
// change of the configuration and at the first call. Ports of other families are passed over.
func (t *Table) Sync(ctx context.Context, updated []model.ServicePort, deleted []model.PortKey) (Outcome, error) {
	changed := map[model.PortKey]struct{}{}
	for _, p := range updated {
		if p.Key.Family == t.config.Family {
			t.desired[p.Key] = p
			changed[p.Key] = struct{}{}
		}
	}
	for _, key := range deleted {
		if key.Family == t.config.Family {
			delete(t.desired, key)
			changed[key] = struct{}{}
		}
	}
	if !t.whole {
		return Outcome{Full: true}, t.rebuild(ctx)
	}
	if len(changed) > 0 {
		w := newWriter(t)
		w.changeAll(changed)
		if err := w.run(ctx); err != nil {
			t.whole = false
			return Outcome{}, err
		}
	}
	return Outcome{CleanupErr: t.sweep(ctx)}, nil
}

// Reconfigure changes what the table is made by, and tells whether it differs: the next Sync then writes everything.
func (t *Table) Reconfigure(config Config) bool {
	if reflect.DeepEqual(config, t.config) {
		return false
	}
	t.config = config
	t.Invalidate()
	return true
}

// Invalidate makes the next Sync write everything.
func (t *Table) Invalidate() { t.whole = false }

// Written tells whether the kernel has had everything, so that the next Sync writes only what differs.
func (t *Table) Written() bool { return t.whole }

// rebuild replaces the table, whatever is in it, but for the clients in sets of session affinity.
func (t *Table) rebuild(ctx context.Context) error {
	clear(t.applied)
	clear(t.shared)
	t.stale, t.claims = leftovers{}, newClaims()
	clients := t.affineClients(ctx)
	w := newWriter(t)
	w.tx.Add(&knftables.Table{})
	w.tx.Delete(&knftables.Table{})
	t.base(w.tx)
	all := map[model.PortKey]struct{}{}
	for key := range t.desired {
		all[key] = struct{}{}
	}
	w.changeAll(all)
	w.restore(clients)
	if err := w.run(ctx); err != nil {
		return err
	}
	t.whole = true
	return nil
}

// affineClients reads the clients in sets of session affinity, by set. Rules matter more than the clients: what can't
// be read is logged.
func (t *Table) affineClients(ctx context.Context) map[string][]string {
	log := klog.FromContext(ctx).WithValues("family", t.config.Family)
	sets, err := t.nft.List(ctx, "set")
	if err != nil && !knftables.IsNotFound(err) {
		log.Error(err, "Failed to read sets; clients with session affinity may get other endpoints")
	}
	clients := map[string][]string{}
	for _, set := range sets {
		if !strings.HasPrefix(set, affinityPrefix) {
			continue
		}
		elements, err := t.nft.ListElements(ctx, "set", set)
		if err != nil {
			log.Error(err, "Failed to read a set; its clients may get other endpoints", "set", set)
		}
		for _, e := range elements {
			clients[set] = append(clients[set], strings.Join(e.Key, " . "))
		}
	}
	return clients
}

// sweep deletes what nothing refers to any more. The kernel lets go of a reference only when the transaction that
// removes it is over, so that this is one of its own; what can't be deleted yet is left to the next time.
func (t *Table) sweep(ctx context.Context) error {
	if len(t.stale.chains) == 0 && len(t.stale.sets) == 0 {
		return nil
	}
	tx := nftcheck.NewTransaction(t.nft)
	for _, name := range t.stale.chains {
		tx.Delete(&knftables.Chain{Name: name})
	}
	for _, name := range t.stale.sets {
		tx.Delete(&knftables.Set{Name: name})
	}
	t.checker.Changes(tx)
	if err := t.nft.Run(ctx, tx.Transaction); err != nil {
		return fmt.Errorf("nftables: deleting stale chains and sets: %w", err)
	}
	t.stale = leftovers{}
	return nil
}

// Check tells whether the table is as it was left: all of its chains, sets and maps, with as many rules and elements in
// each, and no other ones in those that did not change since the last check. Clients with session affinity don't
// matter. It costs little as long as no program changes rules of this network namespace.
func (t *Table) Check() (bool, error) {
	if !t.whole {
		return false, nil
	}
	return t.checker.Intact(t.entries, t.stale.has)
}

// entries is how many rules and elements the parts of the table have, by their names.
func (t *Table) entries() map[string]int {
	counts := map[string]int{nodePortIPs: len(t.nodePortAddresses())}
	for _, name := range []string{serviceIPs, noEndpointServices, firewallIPs, serviceNodePorts, noEndpointNodePorts,
		clusterIPsSet, hairpinSet} {
		counts[name] = 0
	}
	for _, c := range t.regularChains() {
		counts[c.name] = len(c.rules)
	}
	for _, c := range baseChains() {
		counts[c.name] = len(c.rules)
	}
	for _, of := range t.applied {
		for _, c := range of.chains {
			counts[c.name] = len(c.rules)
		}
		for _, set := range of.affinity {
			counts[set.name] = 0 // packets fill it
		}
	}
	for at := range t.claims.owner {
		counts[at.container]++
	}
	for e := range t.shared {
		counts[e.container]++
	}
	return counts
}

// Cleanup removes the table.
func (t *Table) Cleanup(ctx context.Context) error {
	tx := t.nft.NewTransaction()
	tx.Add(&knftables.Table{})
	tx.Delete(&knftables.Table{})
	t.whole = false
	if err := t.nft.Run(ctx, tx); err != nil {
		return fmt.Errorf("nftables: %w", err)
	}
	return nil
}
