// Package interpodaffinity places pods near pods that they, or that those, have affinity to, and away from others.
package interpodaffinity

import (
	"k8s.io/apimachinery/pkg/labels"

	"quintet.dev/quintet/components/scheduler/cycle"
	"quintet.dev/quintet/components/scheduler/queue"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

// Name of the plug-in.
const Name = "InterPodAffinity"

var (
	refusalAffinity = &cycle.Refusal{Reasons: []string{"node(s) didn't match pod affinity rules"}, Unresolvable: true}
	refusalAnti     = &cycle.Refusal{Reasons: []string{"node(s) didn't match pod anti-affinity rules"}}
	refusalExisting = &cycle.Refusal{Reasons: []string{"node(s) didn't satisfy existing pods anti-affinity rules"}}
)

// Plugin is a cycle.Filter and cycle.Score.
type Plugin struct {
	// HardWeight is how much a required affinity of a placed pod attracts the pods it is to.
	HardWeight int32
	// IgnorePreferred leaves out preferred terms of placed pods unless the pod has inter-pod terms itself.
	IgnorePreferred bool
}

// Name returns Name.
func (*Plugin) Name() string { return Name }

// Hints say that matching pods which come or go help, nodes with the labels, and the pod's own labels.
func (*Plugin) Hints() []queue.Hint {
	return []queue.Hint{
		{Kinds: queue.NodeAdded, Helps: nodeHelps},
		{Kinds: queue.NodeRemoved | queue.NodeLabels}, // either may part the pod from those that keep it away
		{Kinds: queue.PodAdded | queue.PodRemoved | queue.PodLabels, Helps: podHelps},
		{Kinds: queue.NamespaceLabels | queue.OwnLabels},
	}
}

// nodeHelps is true for a new node that has the labels of the pod's affinity.
func nodeHelps(p *snapshot.Pod, e queue.Event) bool {
	for i := range p.Affinity.Required {
		if _, ok := e.Node.Labels[p.Affinity.Required[i].TopologyKey]; !ok {
			return false
		}
	}
	return true
}

// podHelps is true for pods that the pod wants near and that came, or went, for then it may be the first of its group;
// and for pods that one of both keeps away and that went. Namespaces by selector are not known here, so that such terms
// are taken to match.
func podHelps(p *snapshot.Pod, e queue.Event) bool {
	if e.Pod != nil && matchesAll(p.Affinity.Required, e.Pod) || e.OldPod != nil &&
		matchesAll(p.Affinity.Required, e.OldPod) {
		return true
	}
	if e.OldPod == nil {
		return false
	}
	return matchesAny(p.Affinity.AntiRequired, e.OldPod) || matchesAny(e.OldPod.Affinity.AntiRequired, p)
}

func matchesAll(terms []snapshot.Term, p *snapshot.Pod) bool {
	for i := range terms {
		if !terms[i].MayMatch(p.Obj.Namespace, p.Obj.Labels) {
			return false
		}
	}
	return len(terms) > 0
}

func matchesAny(terms []snapshot.Term, p *snapshot.Pod) bool {
	for i := range terms {
		if terms[i].MayMatch(p.Obj.Namespace, p.Obj.Labels) {
			return true
		}
	}
	return false
}

// Filter tests required terms: the pod's own, and the anti-affinity of pods that are placed.
func (*Plugin) Filter(p *snapshot.Pod, s *snapshot.Snapshot) (cycle.Test, *cycle.Refusal) {
	t := &test{pod: p, s: s, existing: map[string]*tally{}}
	for i := range p.Affinity.Required {
		t.near = append(t.near, newTally(s, p.Affinity.Required[i].TopologyKey))
	}
	for i := range p.Affinity.AntiRequired {
		t.away = append(t.away, newTally(s, p.Affinity.AntiRequired[i].TopologyKey))
	}
	if len(t.near)+len(t.away) > 0 {
		s.Classes(func(class *snapshot.Class) { t.meet(class) })
	}
	s.ClassesWithTerms(func(class *snapshot.Class) { t.kept(class) })
	if len(t.near)+len(t.away)+len(t.existing) == 0 {
		return nil, nil
	}
	return t, nil
}

// test counts the pods that matter to the pod in each domain.
type test struct {
	pod      *snapshot.Pod
	s        *snapshot.Snapshot
	near     []*tally // by required affinity term: pods that match all of them
	away     []*tally // by required anti-affinity term: pods that match it
	existing map[string]*tally
	matched  int // sum over near
}

// tally counts pods by domain of one topology.
type tally struct {
	column *snapshot.Column
	pods   []int
}

func newTally(s *snapshot.Snapshot, key string) *tally {
	column := s.Column(key)
	return &tally{column: column, pods: make([]int, len(column.Values))}
}

// add returns how many were counted: none on a node without the label.
func (t *tally) add(n *snapshot.Node, pods int) int {
	if n.Index < 0 {
		return 0
	}
	domain := t.column.Of[n.Index]
	if domain < 0 {
		return 0
	}
	t.pods[domain] += pods
	return pods
}

func (t *tally) at(n *snapshot.Node) (pods int, labeled bool) {
	domain := t.column.Of[n.Index]
	if domain < 0 {
		return 0, false
	}
	return t.pods[domain], true
}

// meet counts the pods of a class that the pod's own terms are about.
func (t *test) meet(class *snapshot.Class) {
	near, away := t.bears(class.Namespace, class.Labels)
	if !near && away == 0 {
		return
	}
	for n, pods := range class.On {
		t.count(n, near, away, pods)
	}
}

// bears tells whether all affinity terms select such pods, and, as bits, which anti-affinity terms do.
func (t *test) bears(namespace string, set labels.Set) (near bool, away uint64) {
	near = len(t.near) > 0
	for i := range t.pod.Affinity.Required {
		near = near && t.pod.Affinity.Required[i].Matches(namespace, set, t.s.NamespaceLabels)
	}
	for i := range t.pod.Affinity.AntiRequired {
		if t.pod.Affinity.AntiRequired[i].Matches(namespace, set, t.s.NamespaceLabels) {
			away |= 1 << i
		}
	}
	return near, away
}

func (t *test) count(n *snapshot.Node, near bool, away uint64, pods int) {
	if near {
		for _, tally := range t.near {
			t.matched += tally.add(n, pods)
		}
	}
	for i, tally := range t.away {
		if away&(1<<i) != 0 {
			tally.add(n, pods)
		}
	}
}

// kept counts the pods of a class that keep the pod away.
func (t *test) kept(class *snapshot.Class) {
	for i := range class.Affinity.AntiRequired {
		for n, pods := range class.On {
			if !t.keep(&class.Affinity.AntiRequired[i], n, pods) {
				break
			}
		}
	}
}

func (t *test) keep(term *snapshot.Term, n *snapshot.Node, pods int) bool {
	if !term.Matches(t.pod.Obj.Namespace, t.pod.Obj.Labels, t.s.NamespaceLabels) {
		return false
	}
	if t.existing[term.TopologyKey] == nil {
		t.existing[term.TopologyKey] = newTally(t.s, term.TopologyKey)
	}
	t.existing[term.TopologyKey].add(n, pods)
	return true
}

func (t *test) Check(n *snapshot.Node) *cycle.Refusal {
	if !t.nearEnough(n) {
		return refusalAffinity
	}
	for _, tally := range t.away {
		if pods, _ := tally.at(n); pods > 0 {
			return refusalAnti
		}
	}
	for _, tally := range t.existing {
		if pods, _ := tally.at(n); pods > 0 {
			return refusalExisting
		}
	}
	return nil
}

// nearEnough lets the first pod of a group that has affinity to itself go anywhere.
func (t *test) nearEnough(n *snapshot.Node) bool {
	all := true
	for _, tally := range t.near {
		pods, labeled := tally.at(n)
		if !labeled {
			return false
		}
		all = all && pods > 0
	}
	if all || t.matched > 0 {
		return all
	}
	near, _ := t.bears(t.pod.Obj.Namespace, t.pod.Obj.Labels)
	return near
}

func (t *test) Follow(p *snapshot.Pod, n *snapshot.Node, sign int) {
	near, away := t.bears(p.Obj.Namespace, p.Obj.Labels)
	t.count(n, near, away, sign)
	for i := range p.Affinity.AntiRequired {
		t.keep(&p.Affinity.AntiRequired[i], n, sign)
	}
}
