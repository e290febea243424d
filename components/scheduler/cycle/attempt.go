package cycle

import "quintet.dev/quintet/components/scheduler/snapshot"

// Attempt is a profile's filters, prepared for one pod on one snapshot.
type Attempt struct {
	Pod         *snapshot.Pod
	Snapshot    *snapshot.Snapshot
	tests       []named
	nominations Nominations
	only        map[string]struct{} // nil: all nodes
	narrowedBy  []string
}

type named struct {
	plugin string
	test   Test
}

// prepare returns the refusal of a plug-in that refuses all nodes.
func (a *Attempt) prepare(filters []Filter) (*Refusal, string) {
	for _, f := range filters {
		test, refusal := f.Filter(a.Pod, a.Snapshot)
		if refusal != nil {
			return refusal, f.Name()
		}
		if test == nil {
			continue
		}
		a.tests = append(a.tests, named{f.Name(), test})
		if narrower, ok := test.(Narrower); ok {
			a.narrow(narrower.Only(), f.Name())
		}
	}
	return nil, ""
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
func (a *Attempt) Check(n *snapshot.Node) (*Refusal, string) {
	if waiting := a.nominated(n.Name); len(waiting) > 0 {
		with := n.Clone()
		for _, p := range waiting {
			a.Add(p, with)
		}
		refusal, plugin := a.check(with)
		for _, p := range waiting {
			a.Remove(p, with)
		}
		if refusal != nil {
			return refusal, plugin
		}
	}
	return a.check(n)
}

// Add puts p on n, which must be a clone, for the following checks.
func (a *Attempt) Add(p *snapshot.Pod, n *snapshot.Node) {
	n.Add(p)
	a.follow(p, n, 1)
}

// Remove takes p off n, which must be a clone, for the following checks.
func (a *Attempt) Remove(p *snapshot.Pod, n *snapshot.Node) {
	if n.Remove(p.UID()) {
		a.follow(p, n, -1)
	}
}

func (a *Attempt) follow(p *snapshot.Pod, n *snapshot.Node, sign int) {
	for i := range a.tests {
		if f, ok := a.tests[i].test.(Follower); ok {
			f.Follow(p, n, sign)
		}
	}
}

func (a *Attempt) check(n *snapshot.Node) (*Refusal, string) {
	for i := range a.tests {
		if refusal := a.tests[i].test.Check(n); refusal != nil {
			return refusal, a.tests[i].plugin
		}
	}
	return nil, ""
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
