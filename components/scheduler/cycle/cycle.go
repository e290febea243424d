// Package cycle decides where a pod goes: filter, score, pick. It does no I/O: the same snapshot, pod, start and seed
// give the same decision and the same explanation.
package cycle

import (
	"quintet.dev/quintet/components/scheduler/snapshot"
)

// How many feasible nodes are enough to choose from (upstream's rule for percentageOfNodesToScore 0).
const (
	enoughNodes        = 100
	defaultPercentage  = 50
	nodesPerPercentage = 125
	leastPercentage    = 5
)

// Profile is an ordered set of plug-ins. It keeps buffers, so it is not safe for concurrent use.
type Profile struct {
	Name        string // the spec.schedulerName it serves
	Filters     []Filter
	Scores      []Weighted
	PostFilters []PostFilter
	// Extenders are asked after the filters, and after the scores.
	Extenders []Extender
	// Begin, if not nil, is called before the plug-ins of each decision. Its result is Decision.State.
	Begin func(*Attempt) any
	// Observer, if not nil, is told what the plug-ins take.
	Observer Observer
	// Release, if not nil, calls what waits for extenders, which need nothing but the objects of the nodes.
	Release func(do func())
	// Percentage of the nodes that must be feasible before the search ends; 0 takes a share by the cluster's size.
	Percentage int

	feasible     []*snapshot.Node
	refused      []Refused
	scores, sums []int64
	tests        []named
	scratch      snapshot.Node
}

// Request is the input of a decision.
type Request struct {
	Pod         *snapshot.Pod
	Nominations Nominations
	// Nominated is the nominated node of the pod; it is filtered first.
	Nominated string
	// Start is the index of the node to filter first: Decision.Next of the previous decision.
	Start int
	// Seed breaks ties between nodes of equal score.
	Seed uint64
	// Measure tells the profile's observer of each plug-in, too.
	Measure bool
	// Explain filters all nodes and keeps refusals and scores.
	Explain bool
}

// Schedule decides. Snapshot must not change meanwhile.
func (f *Profile) Schedule(s *snapshot.Snapshot, r Request) *Decision {
	nodes := s.Nodes()
	d := &Decision{Total: len(nodes), Next: r.Start}
	if len(nodes) == 0 {
		return d
	}
	a := &Attempt{Pod: r.Pod, Snapshot: s, nominations: r.Nominations, tests: f.tests[:0],
		extenders: interested(f.Extenders, r.Pod), release: f.Release, scratch: &f.scratch}
	if !r.Explain {
		a.measures = measures{f.Observer, r.Measure}
	}
	defer func() {
		a.report()
		f.tests = a.tests
	}()
	if r.Pod.Invalid != nil {
		d.RefusedAll = &Refused{Refusal: &Refusal{Reasons: []string{r.Pod.Invalid.Error()}, Unresolvable: true}}
		return d
	}
	if f.Begin != nil {
		d.State = f.Begin(a)
	}
	began := a.begin()
	refusal, plugin := a.prepare(f.Filters)
	a.point(PreFilterPoint, refusal.status(), began)
	if refusal != nil {
		if refusal.Err != nil {
			d.Err, d.FailedBy = refusal.Err, plugin
			return d
		}
		d.RefusedAll = &Refused{Plugin: plugin, Refusal: refusal}
		f.postFilter(a, d, r.Nominated)
		return d
	}
	d.Narrowed = a.narrowedBy
	began = a.begin()
	f.filter(a, d, r)
	a.point(FilterPoint, statusOf(d.Err), began)
	if d.Err != nil {
		return d
	}
	if len(f.feasible) == 0 {
		f.postFilter(a, d, r.Nominated)
		return d
	}
	f.pick(a, d, r)
	if d.Node != "" {
		d.Kept = a.keep(d.Node)
	}
	return d
}

// filter fills f.feasible, from nodes that come next after those of the last cycle.
func (f *Profile) filter(a *Attempt, d *Decision, r Request) {
	f.feasible, f.refused = f.feasible[:0], f.refused[:0]
	nodes := f.candidates(a, d)
	enough := len(nodes)
	if !r.Explain && a.only == nil {
		enough = f.enough(len(nodes))
	}
	if n := a.preferred(r.Nominated); n != nil && !r.Explain {
		if refusal, _ := a.check(n, true); refusal == nil {
			f.feasible = append(f.feasible, n)
			if f.extend(a, d); d.Err != nil || len(f.feasible) > 0 {
				d.Evaluated, d.Feasible = 1, len(f.feasible)
				return
			}
			f.refused = f.refused[:0]
		}
	}
	at := 0
	if len(nodes) > 0 {
		at = r.Start % len(nodes)
	}
	for ; d.Evaluated < len(nodes) && len(f.feasible) < enough; d.Evaluated++ {
		n := nodes[at]
		if at++; at == len(nodes) {
			at = 0
		}
		if refusal, plugin := a.check(n, true); refusal != nil {
			if refusal.Err != nil {
				d.Err, d.FailedBy = refusal.Err, plugin
				return
			}
			f.refused = append(f.refused, Refused{n.Name, plugin, refusal})
			continue
		}
		f.feasible = append(f.feasible, n)
	}
	if a.only == nil {
		d.Next = (r.Start + d.Evaluated) % d.Total
	}
	f.extend(a, d)
	d.Feasible = len(f.feasible)
	if d.Feasible == 0 || r.Explain {
		d.Refused = append([]Refused(nil), f.refused...)
	}
}

// candidates are the nodes worth looking at, in order.
func (f *Profile) candidates(a *Attempt, d *Decision) []*snapshot.Node {
	nodes := a.Snapshot.Nodes()
	if a.only == nil {
		return nodes
	}
	var some []*snapshot.Node
	for name := range a.only {
		if n := a.Snapshot.Node(name); n != nil {
			some = append(some, n)
		}
	}
	sortByIndex(some)
	return some
}

// preferred is the nominated node if it is worth looking at.
func (a *Attempt) preferred(name string) *snapshot.Node {
	if name == "" {
		return nil
	}
	if _, ok := a.only[name]; !ok && a.only != nil {
		return nil
	}
	return a.Snapshot.Node(name)
}

func (f *Profile) enough(nodes int) int {
	percentage := f.Percentage
	if nodes < enoughNodes || percentage >= 100 {
		return nodes
	}
	if percentage == 0 {
		percentage = max(defaultPercentage-nodes/nodesPerPercentage, leastPercentage)
	}
	return max(nodes*percentage/100, enoughNodes)
}

// pick returns the feasible node with the highest score; of several, one chosen by the seed.
func (f *Profile) pick(a *Attempt, d *Decision, r Request) {
	if len(f.feasible) == 1 && !r.Explain {
		d.Node = f.feasible[0].Name
		return
	}
	began := a.begin()
	f.score(a, d, a.measures, r.Explain)
	a.point(ScorePoint, statusOf(d.Err), began)
	if d.Err != nil {
		return
	}
	f.prioritize(a, d)
	best, ties := 0, uint64(1)
	random := r.Seed
	for i := 1; i < len(f.sums); i++ {
		switch {
		case f.sums[i] > f.sums[best]:
			best, ties = i, 1
		case f.sums[i] == f.sums[best]:
			ties++
			if random = mix(random); random%ties == 0 {
				best = i
			}
		}
	}
	d.Node = f.feasible[best].Name
}

func (f *Profile) score(a *Attempt, d *Decision, m measures, explain bool) {
	count := len(f.feasible)
	if cap(f.sums) < count {
		f.sums, f.scores = make([]int64, count), make([]int64, count)
	}
	f.sums, f.scores = f.sums[:count], f.scores[:count]
	clear(f.sums)
	if explain {
		d.Scores = make([]NodeScore, count)
		for i, n := range f.feasible {
			d.Scores[i] = NodeScore{Node: n.Name, ByPlugin: map[string]int64{}}
		}
	}
	for _, plugin := range f.Scores {
		preferring, err := f.scoreBy(plugin, a, m)
		if err != nil {
			d.Err, d.FailedBy = err, plugin.Name()
			return
		}
		if !preferring {
			continue
		}
		for i, score := range f.scores {
			f.sums[i] += plugin.Weight * score
			if explain {
				d.Scores[i].ByPlugin[plugin.Name()] = plugin.Weight * score
				d.Scores[i].Total = f.sums[i]
			}
		}
	}
}

// scoreBy has one plug-in write f.scores; false means that it has no preference.
func (f *Profile) scoreBy(plugin Weighted, a *Attempt, m measures) (preferring bool, err error) {
	began := m.beginPlugin()
	preferring = plugin.Score.Score(a.Pod, a.Snapshot, f.feasible, f.scores)
	if failing, ok := plugin.Score.(FailingScore); ok {
		err = failing.Err()
	}
	if err == nil && !preferring {
		m.plugin(plugin.Name(), PreScorePoint, Skip, began)
		return false, nil
	}
	m.plugin(plugin.Name(), ScorePoint, statusOf(err), began)
	m.evaluated(plugin.Name(), PreScorePoint, 1)
	m.evaluated(plugin.Name(), ScorePoint, len(f.feasible))
	return preferring, err
}

func statusOf(err error) string {
	if err != nil {
		return Failure
	}
	return Success
}

// ScoreNodes scores some nodes for the pod of an attempt, by plug-in and in sum.
func (f *Profile) ScoreNodes(a *Attempt, nodes []*snapshot.Node) ([]NodeScore, error) {
	buffers := Profile{Scores: f.Scores, feasible: nodes}
	d := &Decision{}
	buffers.score(a, d, measures{}, true)
	return d.Scores, d.Err
}

// postFilter runs the PostFilter plug-ins until one nominates a node; else it joins their messages.
func (f *Profile) postFilter(a *Attempt, d *Decision, nominated string) {
	if len(f.PostFilters) == 0 {
		return
	}
	began := a.begin()
	defer func() { a.point(PostFilterPoint, d.PostFilterResult.status(), began) }()
	for _, plugin := range f.PostFilters {
		pluginBegan := a.beginPlugin()
		result := plugin.PostFilter(a, d.Refused, nominated)
		a.plugin(plugin.Name(), PostFilterPoint, result.status(), pluginBegan)
		if d.PostFilterResult != nil && result.Writes == nil {
			result.Writes = d.PostFilterResult.Writes
		}
		if d.PostFilterResult != nil && result.Node == "" {
			result.Message = d.PostFilterResult.Message + ", " + result.Message
			result.KeepNomination = result.KeepNomination || d.PostFilterResult.KeepNomination
		}
		d.PostFilterResult = &result
		if result.Node != "" || result.Last {
			return
		}
	}
}

// mix scrambles x (the finalizer of splitmix64).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb
	return x ^ (x >> 31)
}
