package cycle

import (
	"slices"
	"strings"
	"sync"

	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/scheduler/snapshot"
)

// ExtenderName stands for all extenders where plug-ins are named.
const ExtenderName = "Extender"

// Extender is a process that takes part in decisions
// (https://kubernetes.io/docs/concepts/scheduling-eviction/scheduler-perf-tuning/, KEP-624). Its methods wait for it;
// the snapshot does not change meanwhile. What it does not do, it leaves as it is.
type Extender interface {
	// Name is its address.
	Name() string
	Interested(p *snapshot.Pod) bool
	// Ignorable tells that decisions go on without it when it fails.
	Ignorable() bool
	// Filter refuses some of nodes, by name.
	Filter(p *snapshot.Pod, nodes []*snapshot.Node) (map[string]Refusal, error)
	// Prioritize returns weighted scores by node, in the units of the plug-ins'; nil for none.
	Prioritize(p *snapshot.Pod, nodes []*snapshot.Node) (map[string]int64, error)
	// Preempt returns those of the nodes that pods may be evicted from, and which pods.
	Preempt(p *snapshot.Pod, s *snapshot.Snapshot, victims map[string]Victims) (map[string]Victims, error)
	// Preempts tells whether Preempt does anything.
	Preempts() bool
}

// Victims are the pods to evict from a node, and how many of these disruption budgets do not allow.
type Victims struct {
	Pods       []*snapshot.Pod
	Violations int64
}

func interested(all []Extender, p *snapshot.Pod) []Extender {
	var some []Extender
	for _, e := range all {
		if e.Interested(p) {
			some = append(some, e)
		}
	}
	return some
}

// extend has the extenders filter f.feasible, one after the other.
func (f *Profile) extend(a *Attempt, d *Decision) {
	for _, e := range a.extenders {
		if len(f.feasible) == 0 {
			return
		}
		var refusals map[string]Refusal
		var err error
		a.Release(func() { refusals, err = e.Filter(a.Pod, f.feasible) })
		if err != nil {
			if e.Ignorable() {
				klog.Background().Info("Skipping extender as it returned error and has ignorable flag set", "extender",
					e.Name(), "err", err)
				continue
			}
			d.Err, d.FailedBy = err, ExtenderName
			return
		}
		kept := f.feasible[:0:0]
		for _, n := range f.feasible {
			if refusal, is := refusals[n.Name]; is {
				f.refused = append(f.refused, Refused{n.Name, ExtenderName, &refusal})
				continue
			}
			kept = append(kept, n)
		}
		f.feasible = kept
	}
}

// ask returns an extender's scores; nil if it fails.
func ask(e Extender, p *snapshot.Pod, nodes []*snapshot.Node) map[string]int64 {
	scores, err := e.Prioritize(p, nodes)
	if err != nil {
		klog.Background().V(2).Info("Failed to run extender's priority function. No score given by this extender",
			"extender", e.Name(), "err", err)
	}
	return scores
}

// prioritize adds the extenders' scores, which are asked for at once. One that fails is left out.
func (f *Profile) prioritize(a *Attempt, d *Decision) {
	if len(a.extenders) == 0 {
		return
	}
	given := make([]map[string]int64, len(a.extenders))
	a.Release(func() {
		var asking sync.WaitGroup
		for i, e := range a.extenders {
			asking.Go(func() { given[i] = ask(e, a.Pod, f.feasible) })
		}
		asking.Wait()
	})
	for i, scores := range given {
		for at, n := range f.feasible {
			score := scores[n.Name]
			f.sums[at] += score
			if d.Scores != nil && score != 0 {
				d.Scores[at].ByPlugin[a.extenders[i].Name()] = score
				d.Scores[at].Total = f.sums[at]
			}
		}
	}
}

// SortedNames are the nodes of victims, in order.
func SortedNames(victims map[string]Victims) []string {
	names := make([]string, 0, len(victims))
	for name := range victims {
		names = append(names, name)
	}
	slices.SortFunc(names, strings.Compare)
	return names
}
