// Package podtopologyspread keeps pods spread over zones, nodes and other topology (KEPs 895, 3022, 3094, 3243).
package podtopologyspread

import (
	"maps"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"quintet.dev/quintet/components/scheduler/cycle"
	"quintet.dev/quintet/components/scheduler/queue"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

// Name of the plug-in.
const Name = "PodTopologySpread"

const reason = "node(s) didn't match pod topology spread constraints"

var (
	refusal        = &cycle.Refusal{Reasons: []string{reason}}
	refusalNoLabel = &cycle.Refusal{Reasons: []string{reason + " (missing required label)"}, Unresolvable: true}
)

// Plugin is a cycle.Filter and cycle.Score.
type Plugin struct {
	// Defaults apply to pods without constraints of their own that belong to a service or a controller.
	Defaults []v1.TopologySpreadConstraint
	// AnyTopology scores nodes that lack some of the Defaults' labels too.
	AnyTopology bool
}

// System returns a Plugin with upstream's default constraints.
func System() *Plugin {
	return &Plugin{AnyTopology: true, Defaults: []v1.TopologySpreadConstraint{
		{TopologyKey: v1.LabelHostname, WhenUnsatisfiable: v1.ScheduleAnyway, MaxSkew: 3},
		{TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.ScheduleAnyway, MaxSkew: 5},
	}}
}

// Name returns Name.
func (*Plugin) Name() string { return Name }

// Hints say that changes of nodes help, of matching pods on them, and of the pod's labels.
func (f *Plugin) Hints() []queue.Hint {
	return []queue.Hint{
		{Kinds: queue.NodeAdded | queue.NodeRemoved | queue.NodeLabels | queue.NodeTaints, Helps: f.nodeHelps},
		{Kinds: queue.PodAdded | queue.PodRemoved | queue.PodLabels, Helps: f.podHelps},
		{Kinds: queue.OwnLabels | queue.OwnTolerations},
	}
}

// nodeHelps is true for nodes that have, or had, all the labels, and for labels and taints that changed: each may
// change what a domain is or what the emptiest one holds.
func (f *Plugin) nodeHelps(p *snapshot.Pod, e queue.Event) bool {
	constraints, err := f.hard(p, nil)
	if err != nil {
		return false
	}
	if e.OldNode != nil && e.Node != nil && e.Kind&queue.NodeTaints == 0 &&
		maps.Equal(e.OldNode.Labels, e.Node.Labels) {
		return false
	}
	return labeled(constraints, e.OldNode) || labeled(constraints, e.Node)
}

func labeled(constraints []constraint, n *v1.Node) bool {
	if n == nil {
		return false
	}
	for i := range constraints {
		if _, ok := n.Labels[constraints[i].key]; !ok {
			return false
		}
	}
	return true
}

func (f *Plugin) podHelps(p *snapshot.Pod, e queue.Event) bool {
	constraints, err := f.hard(p, nil)
	if err != nil {
		return false
	}
	for i := range constraints {
		if matches(&constraints[i], p, e.OldPod) != matches(&constraints[i], p, e.Pod) {
			return true
		}
	}
	return len(constraints) == 0 // refused by a default, whose selector is not known here
}

func matches(c *constraint, p, other *snapshot.Pod) bool {
	return other != nil && !other.Terminating() && other.Obj.Namespace == p.Obj.Namespace &&
		c.selector.Matches(labels.Set(other.Obj.Labels))
}

// hard are the constraints that must hold; without a snapshot, only the pod's own.
func (f *Plugin) hard(p *snapshot.Pod, s *snapshot.Snapshot) ([]constraint, error) {
	if len(p.Obj.Spec.TopologySpreadConstraints) > 0 || s == nil {
		return own(p.Obj, v1.DoNotSchedule)
	}
	return f.defaults(p, s, v1.DoNotSchedule), nil
}

func (f *Plugin) defaults(p *snapshot.Pod, s *snapshot.Snapshot, action v1.UnsatisfiableConstraintAction) []constraint {
	var constraints []constraint
	var selector labels.Selector
	for i := range f.Defaults {
		if f.Defaults[i].WhenUnsatisfiable != action {
			continue
		}
		if selector == nil {
			if selector = s.Siblings(p); selector == nil {
				return nil
			}
		}
		constraints = append(constraints, withDefaults(&f.Defaults[i], selector))
	}
	return constraints
}

// Filter tests that placing the pod would not skew a topology more than it may be.
func (f *Plugin) Filter(p *snapshot.Pod, s *snapshot.Snapshot) (cycle.Test, *cycle.Refusal) {
	constraints, err := f.hard(p, s)
	if err != nil {
		return nil, &cycle.Refusal{Reasons: []string{err.Error()}, Unresolvable: true}
	}
	if len(constraints) == 0 {
		return nil, nil
	}
	t := &test{pod: p, in: newInclusion(p.Obj, s, constraints, true)}
	for i := range constraints {
		t.spreads = append(t.spreads, newSpread(p, s, &constraints[i], t.in))
	}
	return t, nil
}

// test counts, by constraint, the matching pods in each domain.
type test struct {
	pod     *snapshot.Pod
	in      *inclusion
	spreads []*spread
}

type spread struct {
	*constraint
	column *snapshot.Column
	pods   []int  // by domain
	counts []bool // whether some node of the domain counts
	least  int
	stale  bool
}

func newSpread(p *snapshot.Pod, s *snapshot.Snapshot, c *constraint, in *inclusion) *spread {
	column := s.Column(c.key)
	sp := &spread{constraint: c, column: column, pods: make([]int, len(column.Values)),
		counts: make([]bool, len(column.Values)), stale: true}
	for i, n := range s.Nodes() {
		if domain := column.Of[i]; domain >= 0 && !sp.counts[domain] && in.includes(c, n) {
			sp.counts[domain] = true
		}
	}
	c.count(p.Obj.Namespace, s, func(n *snapshot.Node, pods int) {
		if domain := column.Of[n.Index]; domain >= 0 && in.includes(c, n) {
			sp.pods[domain] += pods
		}
	})
	return sp
}

// minimum is the fewest pods in a domain; 0 if there are fewer domains than there must be.
func (sp *spread) minimum() int {
	if !sp.stale {
		return sp.least
	}
	sp.stale = false
	domains := 0
	sp.least = 0
	for domain, counts := range sp.counts {
		if !counts {
			continue
		}
		if domains == 0 || sp.pods[domain] < sp.least {
			sp.least = sp.pods[domain]
		}
		domains++
	}
	if domains < sp.minDomains {
		sp.least = 0
	}
	return sp.least
}

func (t *test) Check(n *snapshot.Node) *cycle.Refusal {
	for _, sp := range t.spreads {
		domain := sp.column.Of[n.Index]
		if domain < 0 {
			return refusalNoLabel
		}
		pods := sp.pods[domain]
		if sp.selfMatch {
			pods++
		}
		if pods-sp.minimum() > sp.maxSkew {
			return refusal
		}
	}
	return nil
}

func (t *test) Follow(p *snapshot.Pod, n *snapshot.Node, sign int) {
	for _, sp := range t.spreads {
		if domain := sp.column.Of[n.Index]; domain >= 0 && matches(sp.constraint, t.pod, p) &&
			t.in.includes(sp.constraint, n) {
			sp.pods[domain] += sign
			sp.stale = true
		}
	}
}
