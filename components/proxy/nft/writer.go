package nft

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/knftables"

	"quintet.dev/quintet/components/proxy/model"
	"quintet.dev/quintet/internal/nftcheck"
)

// writer is one transaction.
type writer struct {
	t  *Table
	tx *nftcheck.Transaction
	// last, in this order: what is added to maps and sets when all chains stand.
	added []element
	next  map[model.PortKey]rendered
	gone  []model.PortKey
	freed []model.PortKey // ports that waited for an element which another one gave up
	stale leftovers
}

func newWriter(t *Table) *writer {
	return &writer{t: t, tx: nftcheck.NewTransaction(t.nft), next: map[model.PortKey]rendered{}}
}

// changeAll writes the difference of several ports, in the order of their names, so that the same ports win the
// elements that several ask for, whatever the order in which they came.
func (w *writer) changeAll(keys map[model.PortKey]struct{}) {
	byName := func(a, b model.PortKey) int { return cmp.Compare(portName(a), portName(b)) }
	sorted := slices.SortedFunc(maps.Keys(keys), byName)
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
				Name: set.name, Type: w.t.addressType(),
				Flags:   []knftables.SetFlag{knftables.DynamicFlag, knftables.TimeoutFlag},
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

// share counts the ports that use an element.
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
	w.t.checker.Changes(w.tx)
	if err := w.t.nft.Run(ctx, w.tx.Transaction); err != nil {
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

// restore gives affinity sets back the clients that the table had before, each for the set's whole time.
func (w *writer) restore(clients map[string][]string) {
	for _, now := range w.next {
		for _, set := range now.affinity {
			for _, client := range clients[set.name] {
				w.added = append(w.added, element{container: set.name, key: client})
			}
		}
	}
}
