// Package nft carries the model of kube-proxy out in the kernel, through nftables: one table per IP family, which is
// changed in single transactions that hold just what differs from the last one.
package nft

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/knftables"

	"quintet.dev/quintet/components/proxy/model"
)

// Config of a table.
type Config struct {
	Family v1.IPFamily
	// MasqueradeBit is the bit of the packet mark that asks for the node's address.
	MasqueradeBit int
	// MasqueradeAll gives all traffic to cluster IPs the node's address.
	MasqueradeAll bool
	// LocalTraffic matches packets that come from this node's pods or, where that can't be told, from the cluster's,
	// and NotLocalTraffic all others, as conditions of nftables. Both are "" where it can't be told.
	LocalTraffic, NotLocalTraffic string
	// NodePortIPs are the addresses of this node on which node ports are served; AllNodePortIPs takes all of them but
	// the loopback.
	NodePortIPs    []netip.Addr
	AllNodePortIPs bool
}

// Table is kube-proxy's table of one family. It belongs to one goroutine.
type Table struct {
	config  Config
	nft     knftables.Interface
	ip      string // the family's keyword
	applied map[model.PortKey]rendered
	shared  map[element]int // how many ports ask for it
	claims  claims
	// whole is false until everything is in the kernel.
	whole bool
	// desired keeps the ports for the case that everything must be written anew.
	desired map[model.PortKey]model.ServicePort
	stale   leftovers
}

// leftovers are objects that nothing refers to any more.
type leftovers struct{ chains, sets []string }

// New returns a table that is not written yet.
func New(config Config, nft knftables.Interface) *Table {
	return &Table{
		config: config, nft: nft, ip: keyword(config.Family),
		applied: map[model.PortKey]rendered{}, shared: map[element]int{}, desired: map[model.PortKey]model.ServicePort{},
		claims: newClaims(),
	}
}

// Sync applies changes: in one transaction that holds what differs from the last one, or everything after a failure and
// at the first call. Ports of other families are passed over.
func (t *Table) Sync(ctx context.Context, updated []model.ServicePort, deleted []model.PortKey) error {
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
		return t.rebuild(ctx)
	}
	if len(changed) == 0 && len(t.stale.chains) == 0 {
		return nil
	}
	w := newWriter(t)
	w.changeAll(changed)
	if err := w.run(ctx); err != nil {
		t.whole = false
		return err
	}
	t.sweep(ctx)
	return nil
}

// Invalidate makes the next Sync write everything.
func (t *Table) Invalidate() { t.whole = false }

// rebuild replaces the table, whatever is in it.
func (t *Table) rebuild(ctx context.Context) error {
	clear(t.applied)
	clear(t.shared)
	t.stale, t.claims = leftovers{}, newClaims()
	w := newWriter(t)
	w.tx.Add(&knftables.Table{})
	w.tx.Delete(&knftables.Table{})
	t.base(w.tx)
	all := map[model.PortKey]struct{}{}
	for key := range t.desired {
		all[key] = struct{}{}
	}
	w.changeAll(all)
	if err := w.run(ctx); err != nil {
		return err
	}
	t.whole = true
	return nil
}

// sweep deletes what nothing refers to any more. The kernel lets go of a reference only when the transaction that
// removes it is over, so that this is one of its own; what can't be deleted yet is left to the next time.
func (t *Table) sweep(ctx context.Context) {
	if len(t.stale.chains) == 0 && len(t.stale.sets) == 0 {
		return
	}
	tx := t.nft.NewTransaction()
	for _, name := range t.stale.chains {
		tx.Delete(&knftables.Chain{Name: name})
	}
	for _, name := range t.stale.sets {
		tx.Delete(&knftables.Set{Name: name})
	}
	if t.nft.Run(ctx, tx) == nil {
		t.stale = leftovers{}
	}
}

// Check tells whether the table is still as it was left, as far as a look at the chains that everything passes shows.
func (t *Table) Check(ctx context.Context) (bool, error) {
	if !t.whole {
		return false, nil
	}
	for chain, want := range map[string]int{servicesChain: 2, masqueradeChain: 2, "nat-prerouting": 1} {
		rules, err := t.nft.ListRules(ctx, chain)
		if knftables.IsNotFound(err) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("nftables: %w", err)
		}
		if len(rules) != want {
			return false, nil
		}
	}
	return true, nil
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

// writer is one transaction.
type writer struct {
	t  *Table
	tx *knftables.Transaction
	// last, in this order: what is added to maps and sets when all chains stand.
	added []element
	next  map[model.PortKey]rendered
	gone  []model.PortKey
	freed []model.PortKey // ports that waited for an element which another one gave up
	stale leftovers
}

func newWriter(t *Table) *writer {
	return &writer{t: t, tx: t.nft.NewTransaction(), next: map[model.PortKey]rendered{}}
}

// changeAll writes the difference of several ports, in the order of their names, so that the same ports win the
// elements that several ask for, whatever the order in which they came.
func (w *writer) changeAll(keys map[model.PortKey]struct{}) {
	sorted := slices.SortedFunc(maps.Keys(keys), func(a, b model.PortKey) int { return cmp.Compare(portName(a), portName(b)) })
	for _, key := range sorted {
		w.change(key)
	}
	for len(w.freed) > 0 {
		key := w.freed[0]
		w.freed = w.freed[1:]
		if _, wanted := w.t.desired[key]; wanted {
			w.flushNext(key)
			w.change(key)
		}
	}
}

// flushNext makes what this transaction wrote of a port already the state that a further change starts from.
func (w *writer) flushNext(key model.PortKey) {
	if now, ok := w.next[key]; ok {
		w.t.applied[key] = now
	}
}

// change writes the difference between a port as it was applied and as it is desired.
func (w *writer) change(key model.PortKey) {
	before := w.t.applied[key]
	var now rendered
	if port, ok := w.t.desired[key]; ok {
		now = w.t.render(port)
		now.elements = w.t.claims.take(key, now.elements)
		w.next[key] = now
	} else {
		w.gone = append(w.gone, key)
	}
	for _, e := range before.elements {
		if !slices.Contains(now.elements, e) {
			w.remove(e)
		}
	}
	w.freed = append(w.freed, w.t.claims.release(key, before.elements, now.elements)...)
	for _, set := range now.affinity {
		if !slices.Contains(before.affinity, set) {
			w.tx.Add(&knftables.Set{
				Name: set.name, Type: w.t.addressType(), Flags: []knftables.SetFlag{knftables.DynamicFlag, knftables.TimeoutFlag},
				Timeout: seconds(set.seconds),
			})
		}
	}
	w.chains(before, now)
	for _, e := range now.elements {
		if !slices.Contains(before.elements, e) {
			w.added = append(w.added, e)
		}
	}
	w.share(before.shared, now.shared)
	for _, set := range before.affinity {
		if !slices.Contains(now.affinity, set) {
			w.stale.sets = append(w.stale.sets, set.name)
		}
	}
}

// chains writes those that differ, and empties those that are left.
func (w *writer) chains(before, now rendered) {
	find := func(in []chain, name string) (chain, bool) {
		i := slices.IndexFunc(in, func(c chain) bool { return c.name == name })
		if i < 0 {
			return chain{}, false
		}
		return in[i], true
	}
	var changed []chain
	for _, c := range now.chains {
		old, existed := find(before.chains, c.name)
		if existed && slices.Equal(old.rules, c.rules) {
			continue
		}
		w.tx.Add(&knftables.Chain{Name: c.name})
		if existed || slices.Contains(w.t.stale.chains, c.name) {
			w.tx.Flush(&knftables.Chain{Name: c.name})
		}
		changed = append(changed, c)
	}
	for _, c := range changed {
		for _, rule := range c.rules {
			w.tx.Add(&knftables.Rule{Chain: c.name, Rule: rule})
		}
	}
	for _, c := range before.chains {
		if _, kept := find(now.chains, c.name); !kept {
			w.tx.Flush(&knftables.Chain{Name: c.name})
			w.stale.chains = append(w.stale.chains, c.name)
		}
	}
}

// share counts who asks for elements that several ports have in common.
func (w *writer) share(before, now []element) {
	for _, e := range now {
		if w.t.shared[e]++; w.t.shared[e] == 1 {
			w.added = append(w.added, e)
		}
	}
	for _, e := range before {
		if w.t.shared[e]--; w.t.shared[e] == 0 {
			delete(w.t.shared, e)
			if i := slices.Index(w.added, e); i >= 0 {
				w.added = slices.Delete(w.added, i, i+1)
			} else {
				w.remove(e)
			}
		}
	}
}

func (w *writer) remove(e element) { w.tx.Delete(w.element(e)) }

func (w *writer) element(e element) *knftables.Element {
	out := &knftables.Element{Key: strings.Split(e.key, " . ")}
	if e.value == "" {
		out.Set = e.container
	} else {
		out.Map, out.Value = e.container, []string{e.value}
	}
	return out
}

// run carries the transaction out and takes note of what is now in the kernel.
func (w *writer) run(ctx context.Context) error {
	for _, e := range w.added {
		w.tx.Add(w.element(e))
	}
	if err := w.t.nft.Run(ctx, w.tx); err != nil {
		return errors.Join(errors.New("nftables refused a change"), err)
	}
	for key, now := range w.next {
		w.t.applied[key] = now
		w.t.stale.chains = slices.DeleteFunc(w.t.stale.chains, func(name string) bool {
			return slices.ContainsFunc(now.chains, func(c chain) bool { return c.name == name })
		})
		w.t.stale.sets = slices.DeleteFunc(w.t.stale.sets, func(name string) bool {
			return slices.ContainsFunc(now.affinity, func(s affinitySet) bool { return s.name == name })
		})
	}
	for _, key := range w.gone {
		delete(w.t.applied, key)
	}
	w.t.stale.chains = append(w.t.stale.chains, w.stale.chains...)
	w.t.stale.sets = append(w.t.stale.sets, w.stale.sets...)
	return nil
}
