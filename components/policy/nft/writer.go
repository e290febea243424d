package nft

import (
	"maps"
	"slices"

	"sigs.k8s.io/knftables"

	"quintet.dev/quintet/components/policy/model"
	"quintet.dev/quintet/internal/nftcheck"
)

// writer makes one transaction of changes.
type writer struct {
	tx *nftcheck.Transaction
	m  *model.Model
	c  *model.Changes
	// made are chains and sets that exist when the transaction is over; left are those that nothing refers to any more.
	made map[string]struct{}
	left leftovers
}

// leftovers are objects that nothing refers to any more, by their names.
type leftovers struct{ chains, sets map[string]struct{} }

func newLeftovers() leftovers {
	return leftovers{chains: map[string]struct{}{}, sets: map[string]struct{}{}}
}

func (l leftovers) empty() bool { return len(l.chains)+len(l.sets) == 0 }

func newWriter(tx *nftcheck.Transaction, m *model.Model, c *model.Changes) *writer {
	return &writer{tx: tx, m: m, c: c, made: map[string]struct{}{}, left: newLeftovers()}
}

// base adds the table with everything that does not depend on policies.
func (w *writer) base() {
	w.tx.Add(&knftables.Table{Comment: knftables.PtrTo("rules of NetworkPolicies")})
	for _, f := range families() {
		w.tx.Add(&knftables.Set{Name: localSet(f), Type: f.addressType})
		w.tx.Add(&knftables.Set{Name: selfSet(f), Type: f.addressType + " . " + f.addressType})
	}
	for _, direction := range model.Directions() {
		for _, f := range families() {
			w.tx.Add(&knftables.Map{Name: podsMap(direction, f), Type: f.addressType + " : verdict"})
		}
		w.tx.Add(&knftables.Chain{Name: startingChain(direction)})
		// The filter's priority is behind the translation of Services' addresses to those of pods.
		w.tx.Add(&knftables.Chain{
			Name: baseChain(direction), Type: knftables.PtrTo(knftables.FilterType),
			Hook: knftables.PtrTo(knftables.ForwardHook), Priority: knftables.PtrTo(knftables.BaseChainPriority("0")),
		})
		w.rules(baseChain(direction), baseRules(direction))
	}
}

// changes writes what differs, in an order in which no object refers to one that is missing.
func (w *writer) changes() {
	w.removePods()
	w.sets()
	w.local()
	w.policies()
	w.groups()
	w.addPods()
	w.empty()
	if w.c.StartingDiffers {
		for _, direction := range model.Directions() {
			w.tx.Flush(&knftables.Chain{Name: startingChain(direction)})
			w.rules(startingChain(direction), startingRules(direction, w.m))
		}
	}
}

// removePods takes addresses out of their groups, also those that go into another one.
func (w *writer) removePods() {
	for addr, before := range w.c.Pods {
		if before != (model.Group{}) && before != w.m.Pods[addr] {
			w.tx.Delete(podElement(addr, before))
		}
	}
}

func (w *writer) addPods() {
	for addr, before := range w.c.Pods {
		if now := w.m.Pods[addr]; now != (model.Group{}) && now != before {
			w.tx.Add(podElement(addr, now))
		}
	}
}

func (w *writer) sets() {
	for id, existed := range w.c.Sets {
		if _, exists := w.m.Sets[id]; !existed && exists {
			for _, f := range families() {
				w.tx.Add(setObject(id, f))
				w.made[setName(id, f)] = struct{}{}
			}
		}
	}
	for id, elements := range w.c.Removed {
		if _, exists := w.m.Sets[id]; !exists {
			continue // the set is emptied as a whole
		}
		for element := range elements {
			w.tx.Delete(setElement(id, element))
		}
	}
	for id, elements := range w.c.Added {
		for element := range elements {
			w.tx.Add(setElement(id, element))
		}
	}
}

func (w *writer) local() {
	for addr, was := range w.c.Local {
		_, is := w.m.Local[addr]
		for _, element := range localElements(addr) {
			switch {
			case is && !was:
				w.tx.Add(element)
			case was && !is:
				w.tx.Delete(element)
			}
		}
	}
}

func (w *writer) policies() {
	for key, existed := range w.c.Policies {
		matches, exists := w.m.Policies[key]
		if !exists {
			continue
		}
		w.tx.Add(&knftables.Chain{Name: policyChain(key)})
		if existed {
			w.tx.Flush(&knftables.Chain{Name: policyChain(key)})
		}
		w.made[policyChain(key)] = struct{}{}
		w.rules(policyChain(key), policyRules(key.Direction, matches))
	}
}

func (w *writer) groups() {
	for group, existed := range w.c.Groups {
		if _, exists := w.m.Groups[group]; exists && !existed {
			w.tx.Add(&knftables.Chain{Name: groupChain(group)})
			w.made[groupChain(group)] = struct{}{}
			w.rules(groupChain(group), groupRules(group))
		}
	}
}

// empty empties what is not used any more, so that it can be deleted.
func (w *writer) empty() {
	for group, existed := range w.c.Groups {
		if _, exists := w.m.Groups[group]; existed && !exists {
			w.leave(groupChain(group))
		}
	}
	for key, existed := range w.c.Policies {
		if _, exists := w.m.Policies[key]; existed && !exists {
			w.leave(policyChain(key))
		}
	}
	for id, existed := range w.c.Sets {
		if _, exists := w.m.Sets[id]; existed && !exists {
			for _, f := range families() {
				w.tx.Flush(&knftables.Set{Name: setName(id, f)})
				w.left.sets[setName(id, f)] = struct{}{}
			}
		}
	}
}

func (w *writer) leave(chain string) {
	w.tx.Flush(&knftables.Chain{Name: chain})
	w.left.chains[chain] = struct{}{}
}

func (w *writer) rules(chain string, rules []string) {
	for _, rule := range rules {
		w.tx.Add(&knftables.Rule{Chain: chain, Rule: rule})
	}
}

// delete deletes leftovers.
func (w *writer) delete(of leftovers) {
	for _, name := range slices.Sorted(maps.Keys(of.chains)) {
		w.tx.Delete(&knftables.Chain{Name: name})
	}
	for _, name := range slices.Sorted(maps.Keys(of.sets)) {
		w.tx.Delete(&knftables.Set{Name: name})
	}
}
