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

	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"
	"sigs.k8s.io/knftables"

	"quintet.dev/quintet/components/policy/model"
	"quintet.dev/quintet/internal/nftcheck"
)

// Table is the table of NetworkPolicies. It belongs to one goroutine.
type Table struct {
	nft     knftables.Interface
	checker *nftcheck.Checker
	// whole is false until everything is in the kernel.
	whole bool
	stale leftovers
}

// New returns a table that is not written yet.
func New(nft knftables.Interface, kernel nftcheck.Kernel) *Table {
	return &Table{nft: nft, checker: nftcheck.New(kernel), stale: newLeftovers()}
}

// Open returns the ways to the table of this network namespace.
func Open() (knftables.Interface, nftcheck.Kernel, error) {
	nft, err := knftables.New(knftables.InetFamily, tableName, knftables.NoObjectCommentEmulation)
	if err != nil {
		return nil, nil, fmt.Errorf("nftables (is the program nft installed, and is this run as root?): %w", err)
	}
	return nft, nftcheck.Table{Family: unix.NFPROTO_INET, Name: tableName}, nil
}

// Sync brings the kernel from the model before the changes to the model m, in one transaction. At the first call, and
// where the kernel refuses the changes because its table is not as it was left, the transaction replaces the table.
func (t *Table) Sync(ctx context.Context, m *model.Model, changes *model.Changes) error {
	if t.whole && changes.Empty() {
		return nil
	}
	if t.whole {
		w := newWriter(nftcheck.NewTransaction(t.nft), m, changes)
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
	w := newWriter(nftcheck.NewTransaction(t.nft), m, m.All())
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
	if w.tx.NumOperations() == 0 {
		return nil
	}
	t.checker.Changes(w.tx)
	if err := t.nft.Run(ctx, w.tx.Transaction); err != nil {
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
	w := newWriter(nftcheck.NewTransaction(t.nft), nil, nil)
	w.delete(t.stale)
	t.checker.Changes(w.tx)
	if err := t.nft.Run(ctx, w.tx.Transaction); err != nil {
		return fmt.Errorf("nftables: %w", err)
	}
	t.stale = newLeftovers()
	return nil
}

// Check tells whether the table is as it was left: all of its chains, sets and maps, with as many rules and elements in
// each, and no other ones in those that did not change since the last check. It costs little as long as no program
// changes rules of this network namespace.
func (t *Table) Check(m *model.Model) (bool, error) {
	if !t.whole {
		return false, nil
	}
	return t.checker.Intact(func() map[string]int { return count(m) }, func(part string) bool {
		_, staleChain := t.stale.chains[part]
		_, staleSet := t.stale.sets[part]
		return staleChain || staleSet
	})
}

// count is how many rules and elements the parts of the table have, by their names.
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
