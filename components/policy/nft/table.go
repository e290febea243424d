// Package nft carries the model of NetworkPolicies out in the kernel, through nftables: one table, which is changed in
// transactions that hold just what differs from the last one.
//
// A pod's address leads to the chain of its group, the pods that the same policies select; this one asks a chain for
// each policy, and drops what none of them accepts. Policies' chains look peers up in sets of addresses. So the coming
// of a pod changes elements, and a policy its own chain.
package nft

import (
	"context"
	"fmt"

	"k8s.io/klog/v2"
	"sigs.k8s.io/knftables"

	"quintet.dev/quintet/components/policy/model"
)

// Kernel is what a Table needs of nftables in addition to transactions.
type Kernel interface {
	// Generation is a number that changes whenever rules of the network namespace do.
	Generation() (uint32, error)
	// Count returns how many rules each chain of the table has, and how many elements each set and map; none of them
	// where there is no table.
	Count(ctx context.Context) (map[string]int, error)
}

// Table is the table of NetworkPolicies. It belongs to one goroutine.
type Table struct {
	nft    knftables.Interface
	kernel Kernel
	// whole is false until everything is in the kernel.
	whole bool
	stale leftovers
	// checked is the generation at which the table was found as it was left; seen is false where it was not looked at
	// since the last change.
	checked uint32
	seen    bool
}

// New returns a table that is not written yet.
func New(nft knftables.Interface, kernel Kernel) *Table {
	return &Table{nft: nft, kernel: kernel, stale: newLeftovers()}
}

// Open returns the ways to the table of this network namespace.
func Open() (knftables.Interface, Kernel, error) {
	nft, err := knftables.New(knftables.InetFamily, tableName, knftables.NoObjectCommentEmulation)
	if err != nil {
		return nil, nil, fmt.Errorf("nftables (is the program nft installed, and is this run as root?): %w", err)
	}
	return nft, kernel{}, nil
}

// Sync brings the kernel from the model before the changes to the model m, in one transaction. At the first call, and
// where the kernel refuses the changes because its table is not as it was left, the transaction replaces the table.
func (t *Table) Sync(ctx context.Context, m *model.Model, changes *model.Changes) error {
	if t.whole && changes.Empty() {
		return nil
	}
	if t.whole {
		w := newWriter(t.nft.NewTransaction(), m, changes)
		w.changes()
		err := t.run(ctx, w)
		if err == nil {
			return nil
		}
		klog.FromContext(ctx).Error(err, "Failed to change the table; replacing it", "table", tableName)
	}
	return t.rebuild(ctx, m)
}

// Invalidate makes the next Sync write everything.
func (t *Table) Invalidate() { t.whole = false }

// rebuild replaces the table, whatever is in it.
func (t *Table) rebuild(ctx context.Context, m *model.Model) error {
	t.whole, t.stale = false, newLeftovers()
	w := newWriter(t.nft.NewTransaction(), m, m.All())
	w.tx.Add(&knftables.Table{})
	w.tx.Delete(&knftables.Table{})
	w.base()
	w.changes()
	if err := t.run(ctx, w); err != nil {
		return err
	}
	t.whole = true
	return nil
}

// run carries a transaction out.
func (t *Table) run(ctx context.Context, w *writer) error {
	t.seen = false
	if w.tx.NumOperations() == 0 {
		return nil
	}
	if err := t.nft.Run(ctx, w.tx); err != nil {
		return fmt.Errorf("nftables refused a change: %w", err)
	}
	for name := range w.made {
		delete(t.stale.chains, name)
		delete(t.stale.sets, name)
	}
	for name := range w.left.chains {
		t.stale.chains[name] = struct{}{}
	}
	for name := range w.left.sets {
		t.stale.sets[name] = struct{}{}
	}
	return nil
}

// Sweep deletes what nothing refers to any more, of which Sync leaves the names: some kernels let go of a reference
// only when the transaction that removes it is over, and it can wait. What can't be deleted yet is left to the next
// time.
func (t *Table) Sweep(ctx context.Context) error {
	if !t.whole || t.stale.empty() {
		return nil
	}
	t.seen = false
	w := newWriter(t.nft.NewTransaction(), nil, nil)
	w.delete(t.stale)
	if err := t.nft.Run(ctx, w.tx); err != nil {
		return fmt.Errorf("nftables: %w", err)
	}
	t.stale = newLeftovers()
	return nil
}

// Check tells whether the table is as it was left: all of its chains, sets and maps, and as many rules and elements in
// each. It costs little as long as no program changes rules of this network namespace.
func (t *Table) Check(ctx context.Context, m *model.Model) (bool, error) {
	if !t.whole {
		return false, nil
	}
	generation, err := t.kernel.Generation()
	if err != nil {
		return false, fmt.Errorf("generation of nftables: %w", err)
	}
	if t.seen && generation == t.checked {
		return true, nil
	}
	found, err := t.kernel.Count(ctx)
	if err != nil {
		return false, fmt.Errorf("list the table %s: %w", tableName, err)
	}
	for name, want := range count(m) {
		if got, there := found[name]; !there || got != want {
			return false, nil
		}
		delete(found, name)
	}
	for name := range found {
		_, staleChain := t.stale.chains[name]
		_, staleSet := t.stale.sets[name]
		if !staleChain && !staleSet {
			return false, nil
		}
	}
	t.checked, t.seen = generation, true
	return true, nil
}

// count is what Kernel.Count returns for a model.
func count(m *model.Model) map[string]int {
	counts := map[string]int{}
	for _, direction := range model.Directions() {
		counts[baseChain(direction)] = len(baseRules(direction))
		counts[startingChain(direction)] = len(startingRules(direction, m))
		for _, f := range families() {
			counts[podsMap(direction, f)] = 0
		}
	}
	for _, f := range families() {
		counts[localSet(f)], counts[selfSet(f)] = 0, 0
	}
	for at := range m.Pods {
		counts[podsMap(at.Direction, familyOf(at.Addr))]++
	}
	for addr := range m.Local {
		f := familyOf(addr)
		counts[localSet(f)]++
		counts[selfSet(f)]++
	}
	for group := range m.Groups {
		counts[groupChain(group)] = len(groupRules(group))
	}
	for key, matches := range m.Policies {
		counts[policyChain(key)] = len(policyRules(key.Direction, matches))
	}
	for id, elements := range m.Sets {
		for _, f := range families() {
			counts[setName(id, f)] = 0
		}
		for element := range elements {
			counts[setName(id, familyOf(element.Addr))]++
		}
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
