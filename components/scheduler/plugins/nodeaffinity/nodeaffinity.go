// Package nodeaffinity refuses nodes that a pod's nodeSelector or required node affinity does not select, and prefers
// those that its preferred terms select.
package nodeaffinity

import (
	"errors"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"quintet.dev/quintet/components/scheduler/cycle"
	"quintet.dev/quintet/components/scheduler/queue"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

// Name of the plug-in.
const Name = "NodeAffinity"

var (
	refusal = &cycle.Refusal{Reasons: []string{"node(s) didn't match Pod's node affinity/selector"},
		Unresolvable: true}
	refusalEnforced = &cycle.Refusal{Reasons: []string{"node(s) didn't match scheduler-enforced node affinity"},
		Unresolvable: true}
	refusalConflict = &cycle.Refusal{Reasons: []string{"pod affinity terms conflict"}, Unresolvable: true}
)

// Plugin is a cycle.Filter and cycle.Score.
type Plugin struct {
	required  *nodeaffinity.NodeSelector
	preferred *nodeaffinity.PreferredSchedulingTerms
}

// New takes affinity that applies to every pod besides its own; nil is none.
func New(added *v1.NodeAffinity) (*Plugin, error) {
	p := &Plugin{}
	if added == nil {
		return p, nil
	}
	var err, err2 error
	if added.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		p.required, err = nodeaffinity.NewNodeSelector(added.RequiredDuringSchedulingIgnoredDuringExecution)
	}
	if len(added.PreferredDuringSchedulingIgnoredDuringExecution) > 0 {
		p.preferred, err2 = nodeaffinity.NewPreferredSchedulingTerms(added.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	return p, errors.Join(err, err2)
}

// Name returns Name.
func (*Plugin) Name() string { return Name }

// Hints say that a node whose labels match now helps.
func (f *Plugin) Hints() []queue.Hint {
	return []queue.Hint{{Kinds: queue.NodeAdded | queue.NodeLabels, Helps: func(p *snapshot.Pod, e queue.Event) bool {
		return f.matches(p, e.Node) && (e.OldNode == nil || !f.matches(p, e.OldNode))
	}}}
}

func (f *Plugin) matches(p *snapshot.Pod, n *v1.Node) bool {
	ok, err := nodeaffinity.GetRequiredNodeAffinity(p.Obj).Match(n)
	return ok && err == nil && (f.required == nil || f.required.Match(n))
}

// Filter tests for the selector and the required terms.
func (f *Plugin) Filter(p *snapshot.Pod, _ *snapshot.Snapshot) (cycle.Test, *cycle.Refusal) {
	required := requiredTerms(p.Obj)
	if required == nil && len(p.Obj.Spec.NodeSelector) == 0 && f.required == nil {
		return nil, nil
	}
	only := namedNodes(required)
	if only != nil && len(only) == 0 {
		return nil, refusalConflict
	}
	return &test{plugin: f, own: nodeaffinity.GetRequiredNodeAffinity(p.Obj), only: only}, nil
}

type test struct {
	plugin *Plugin
	own    nodeaffinity.RequiredNodeAffinity
	only   []string
}

// Only names the nodes when every term names some by metadata.name, as those of a DaemonSet's pods do.
func (t *test) Only() []string { return t.only }

func (t *test) Check(n *snapshot.Node) *cycle.Refusal {
	if t.plugin.required != nil && !t.plugin.required.Match(n.Obj) {
		return refusalEnforced
	}
	if ok, err := t.own.Match(n.Obj); !ok || err != nil {
		return refusal
	}
	return nil
}

func requiredTerms(p *v1.Pod) *v1.NodeSelector {
	if p.Spec.Affinity == nil || p.Spec.Affinity.NodeAffinity == nil {
		return nil
	}
	return p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
}

// namedNodes returns nil if some term does not name nodes; terms are alternatives, requirements within one are not.
func namedNodes(selector *v1.NodeSelector) []string {
	if selector == nil || len(selector.NodeSelectorTerms) == 0 {
		return nil
	}
	names := []string{}
	for _, term := range selector.NodeSelectorTerms {
		named := false
		var inTerm []string
		for _, field := range term.MatchFields {
			if field.Key != metav1.ObjectNameField || field.Operator != v1.NodeSelectorOpIn {
				continue
			}
			if !named {
				inTerm, named = field.Values, true
			} else {
				inTerm = intersect(inTerm, field.Values)
			}
		}
		if !named {
			return nil
		}
		names = append(names, inTerm...)
	}
	return names
}

func intersect(a, b []string) []string {
	var both []string
	for _, x := range a {
		for _, y := range b {
			if x == y {
				both = append(both, x)
			}
		}
	}
	return both
}

// Score sums the weights of the preferred terms that match.
func (f *Plugin) Score(p *snapshot.Pod, _ *snapshot.Snapshot, nodes []*snapshot.Node, scores []int64) bool {
	var own *nodeaffinity.PreferredSchedulingTerms
	if a := p.Obj.Spec.Affinity; a != nil && a.NodeAffinity != nil &&
		len(a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0 {
		terms, err := nodeaffinity.NewPreferredSchedulingTerms(a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
		if err != nil {
			return false // the API server admits no such terms
		}
		own = terms
	}
	if own == nil && f.preferred == nil {
		return false
	}
	for i, n := range nodes {
		scores[i] = 0
		if own != nil {
			scores[i] += own.Score(n.Obj)
		}
		if f.preferred != nil {
			scores[i] += f.preferred.Score(n.Obj)
		}
	}
	cycle.Normalize(scores, false)
	return true
}
