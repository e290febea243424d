package interpodaffinity

import (
	"slices"

	"quintet.dev/quintet/components/scheduler/cycle"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

// Score sums the weights of preferred terms, the pod's own and those of placed pods, over the domains of each node.
func (f *Plugin) Score(p *snapshot.Pod, s *snapshot.Snapshot, nodes []*snapshot.Node, scores []int64) bool {
	pull := weights{s: s, byKey: map[string]*tally{}}
	own := len(p.Affinity.Preferred)+len(p.Affinity.AntiPreferred) > 0
	if own {
		s.Classes(func(class *snapshot.Class) {
			pull.own(p.Affinity.Preferred, class, 1)
			pull.own(p.Affinity.AntiPreferred, class, -1)
		})
	}
	s.ClassesWithTerms(func(class *snapshot.Class) {
		if f.HardWeight > 0 {
			pull.theirs(class.Affinity.Required, class, p, int(f.HardWeight))
		}
		if !f.IgnorePreferred || !p.Affinity.Empty() {
			pull.theirs(class.Affinity.Preferred, class, p, 1)
			pull.theirs(class.Affinity.AntiPreferred, class, p, -1)
		}
	})
	if len(pull.byKey) == 0 {
		return false
	}
	for i, n := range nodes {
		scores[i] = 0
		for _, tally := range pull.byKey {
			weight, _ := tally.at(n)
			scores[i] += int64(weight)
		}
	}
	return spread(scores)
}

type weights struct {
	s     *snapshot.Snapshot
	byKey map[string]*tally
}

// own adds the weights of the pod's terms where the pods of a class are that they select.
func (w *weights) own(terms []snapshot.Term, class *snapshot.Class, sign int) {
	for i := range terms {
		if terms[i].Matches(class.Namespace, class.Labels, w.s.NamespaceLabels) {
			w.add(terms[i].TopologyKey, class, sign*int(terms[i].Weight))
		}
	}
}

// theirs adds the weights of the terms of a class that select the pod, times factor; required terms weigh 1.
func (w *weights) theirs(terms []snapshot.Term, class *snapshot.Class, p *snapshot.Pod, factor int) {
	for i := range terms {
		if terms[i].Matches(p.Obj.Namespace, p.Obj.Labels, w.s.NamespaceLabels) {
			w.add(terms[i].TopologyKey, class, factor*max(int(terms[i].Weight), 1))
		}
	}
}

func (w *weights) add(key string, class *snapshot.Class, weight int) {
	if w.byKey[key] == nil {
		w.byKey[key] = newTally(w.s, key)
	}
	for n, pods := range class.On {
		w.byKey[key].add(n, pods*weight)
	}
}

// spread brings the least to 0 and the most to the best score.
func spread(scores []int64) bool {
	if len(scores) == 0 {
		return false
	}
	least, most := slices.Min(scores), slices.Max(scores)
	if least == most {
		return false
	}
	for i := range scores {
		scores[i] = int64(cycle.MaxScore * float64(scores[i]-least) / float64(most-least))
	}
	return true
}
