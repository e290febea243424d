package cycle

import (
	"slices"

	"quintet.dev/quintet/components/scheduler/snapshot"
)

// Attempt is a profile's filters, prepared for one pod on one snapshot.
type Attempt struct {
	Pod         *snapshot.Pod
	Snapshot    *snapshot.Snapshot
	tests       []named
	nominations Nominations
	only        map[string]struct{} // nil: all nodes
	narrowedBy  []string
	extenders   []Extender
	release     func(do func())
	missed      []Filter       // that were not prepared, as one before them refused all nodes
	scratch     *snapshot.Node // the last clone of the search for feasible nodes
	measures
}

type named struct {
	plugin string
	test   Test
	asked  int // by the search for feasible nodes
}

// prepare returns the refusal of a plug-in that refuses all nodes.
func (a *Attempt) prepare(filters []Filter) (*Refusal, string) {
	for i, f := range filters {
		began := a.beginPlugin()
		test, refusal := f.Filter(a.Pod, a.Snapshot)
		if refusal == nil && test == nil {
			a.plugin(f.Name(), PreFilterPoint, Skip, began)
			continue
		}
		a.plugin(f.Name(), PreFilterPoint, refusal.status(), began)
		a.evaluated(f.Name(), PreFilterPoint, 1)
		if refusal != nil {
			a.missed = filters[i+1:]
			return refusal, f.Name()
		}
		a.tests = append(a.tests, named{plugin: f.Name(), test: test})
		if narrower, ok := test.(NodeNarrower); ok {
			a.narrow(narrower.Only(), f.Name())
		}
	}
	return nil, ""
}

// Missed tells whether a filter was not asked, as one before it refused all nodes.
func (a *Attempt) Missed(name string) bool {
	return slices.ContainsFunc(a.missed, func(f Filter) bool { return f.Name() == name })
}

// Extenders are those that want to be asked about the pod.
func (a *Attempt) Extenders() []Extender { return a.extenders }

// Release calls do, which waits for extenders, without a lock on the snapshot, which does not change meanwhile.
func (a *Attempt) Release(do func()) {
	if a.release == nil {
		do()
		return
	}
	a.release(do)
}

// Test returns what a plug-in's filter prepared; nil if it was not asked or has nothing to test.
func (a *Attempt) Test(name string) Test {
	for i := range a.tests {
		if a.tests[i].plugin == name {
			return a.tests[i].test
		}
	}
	return nil
}

// keep collects what the tests decided for the chosen node; nil for nothing.
func (a *Attempt) keep(node string) map[string]any {
	var kept map[string]any
	for i := range a.tests {
		keeper, ok := a.tests[i].test.(Keeper)
		if !ok {
			continue
		}
		if value := keeper.Keep(a.Snapshot.Node(node)); value != nil {
			if kept == nil {
				kept = map[string]any{}
			}
			kept[a.tests[i].plugin] = value
		}
	}
	return kept
}

func (a *Attempt) narrow(names []string, plugin string) {
	if names == nil {
		return
	}
	keep := map[string]struct{}{}
	for _, name := range names {
		if _, ok := a.only[name]; ok || a.only == nil {
			keep[name] = struct{}{}
		}
	}
	a.only = keep
	a.narrowedBy = append(a.narrowedBy, plugin)
}

// Check tells which plug-in refuses a node and why; it asks twice where pods of at least the same priority are
// nominated: with them, and without, since they may yet go elsewhere.
func (a *Attempt) Check(n *snapshot.Node) (*Refusal, string) { return a.check(n, false) }

func (a *Attempt) check(n *snapshot.Node, counted bool) (*Refusal, string) {
	if waiting := a.nominated(n.Name); len(waiting) > 0 {
		with := a.clone(n, counted)
		for _, p := range waiting {
			a.Add(p, with)
		}
		refusal, plugin := a.ask(with, counted)
		for _, p := range waiting {
			a.Remove(p, with)
		}
		if refusal != nil {
			return refusal, plugin
		}
	}
	return a.ask(n, counted)
}

// clone reuses the memory of the last clone where only one goroutine at a time asks.
func (a *Attempt) clone(n *snapshot.Node, alone bool) *snapshot.Node {
	if !alone {
		return n.Clone()
	}
	n.CloneInto(a.scratch)
	return a.scratch
}

// Add puts p on n, which must be a clone, for the following checks.
func (a *Attempt) Add(p *snapshot.Pod, n *snapshot.Node) {
	n.Add(p)
	a.Follow(p, n, 1)
}

// Remove takes p off n, which must be a clone, for the following checks.
func (a *Attempt) Remove(p *snapshot.Pod, n *snapshot.Node) {
	if n.Remove(p.UID()) {
		a.Follow(p, n, -1)
	}
}

// Follow tells the tests that p is on n (sign 1) or off it (sign -1), which is a clone, for the following checks.
func (a *Attempt) Follow(p *snapshot.Pod, n *snapshot.Node, sign int) {
	for i := range a.tests {
		if f, ok := a.tests[i].test.(PreFilterExtensions); ok {
			f.Follow(p, n, sign)
		}
	}
}

// CheckOnly is Check without regard to nominations.
func (a *Attempt) CheckOnly(n *snapshot.Node) (*Refusal, string) { return a.ask(n, false) }

// ask asks the tests in order. Only one goroutine at a time may have them counted.
func (a *Attempt) ask(n *snapshot.Node, counted bool) (*Refusal, string) {
	for i := range a.tests {
		t := &a.tests[i]
		if refusal := a.askOne(t, n, counted); refusal != nil {
			return refusal, t.plugin
		}
	}
	return nil, ""
}

func (a *Attempt) askOne(t *named, n *snapshot.Node, counted bool) *Refusal {
	if !counted {
		return t.test.Check(n)
	}
	t.asked++
	if !a.plugins {
		return t.test.Check(n)
	}
	began := a.beginPlugin()
	refusal := t.test.Check(n)
	a.plugin(t.plugin, FilterPoint, refusal.status(), began)
	return refusal
}

// report tells how often the tests were asked.
func (a *Attempt) report() {
	for i := range a.tests {
		a.evaluated(a.tests[i].plugin, FilterPoint, a.tests[i].asked)
	}
}

func (a *Attempt) nominated(node string) []*snapshot.Pod {
	if len(a.nominations) == 0 {
		return nil
	}
	var waiting []*snapshot.Pod
	for _, p := range a.nominations[node] {
		if p.UID() != a.Pod.UID() && p.Priority >= a.Pod.Priority {
			waiting = append(waiting, p)
		}
	}
	return waiting
}
