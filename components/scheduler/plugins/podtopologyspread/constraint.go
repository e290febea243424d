package podtopologyspread

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	corev1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/scheduler/snapshot"
)

// constraint is a v1.TopologySpreadConstraint with its defaults and its selector parsed.
type constraint struct {
	key            string
	maxSkew        int
	minDomains     int
	selector       labels.Selector
	honorAffinity  bool
	honorTaints    bool
	selfMatch      bool
	whenImpossible v1.UnsatisfiableConstraintAction
}

// own are the pod's constraints that say what to do like this.
func own(p *v1.Pod, action v1.UnsatisfiableConstraintAction) ([]constraint, error) {
	var constraints []constraint
	for i := range p.Spec.TopologySpreadConstraints {
		if p.Spec.TopologySpreadConstraints[i].WhenUnsatisfiable != action {
			continue
		}
		c, err := parse(p, &p.Spec.TopologySpreadConstraints[i])
		if err != nil {
			return nil, fmt.Errorf("topologySpreadConstraints[%d]: %w", i, err)
		}
		constraints = append(constraints, c)
	}
	return constraints, nil
}

func parse(p *v1.Pod, c *v1.TopologySpreadConstraint) (constraint, error) {
	selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
	if err != nil {
		return constraint{}, err
	}
	for _, key := range c.MatchLabelKeys {
		value, ok := p.Labels[key]
		if !ok {
			continue
		}
		requirement, err := labels.NewRequirement(key, selection.In, []string{value})
		if err != nil {
			return constraint{}, err
		}
		selector = selector.Add(*requirement)
	}
	parsed := withDefaults(c, selector)
	parsed.selfMatch = selector.Matches(labels.Set(p.Labels))
	return parsed, nil
}

func withDefaults(c *v1.TopologySpreadConstraint, selector labels.Selector) constraint {
	parsed := constraint{
		key: c.TopologyKey, maxSkew: int(c.MaxSkew), minDomains: 1, selector: selector,
		honorAffinity: true, whenImpossible: c.WhenUnsatisfiable, selfMatch: true,
	}
	if c.MinDomains != nil {
		parsed.minDomains = int(*c.MinDomains)
	}
	if c.NodeAffinityPolicy != nil {
		parsed.honorAffinity = *c.NodeAffinityPolicy == v1.NodeInclusionPolicyHonor
	}
	if c.NodeTaintsPolicy != nil {
		parsed.honorTaints = *c.NodeTaintsPolicy == v1.NodeInclusionPolicyHonor
	}
	return parsed
}

// inclusion selects the nodes that count for a pod's constraints.
type inclusion struct {
	pod      *v1.Pod
	affinity nodeaffinity.RequiredNodeAffinity
	selects  bool // the pod selects nodes at all
	columns  []*snapshot.Column
}

func newInclusion(p *v1.Pod, s *snapshot.Snapshot, constraints []constraint, allKeys bool) *inclusion {
	in := &inclusion{pod: p, selects: len(p.Spec.NodeSelector) > 0 || p.Spec.Affinity != nil &&
		p.Spec.Affinity.NodeAffinity != nil}
	if in.selects {
		in.affinity = nodeaffinity.GetRequiredNodeAffinity(p)
	}
	if allKeys {
		for i := range constraints {
			in.columns = append(in.columns, s.Column(constraints[i].key))
		}
	}
	return in
}

// includes tells whether a node's pods count for c: it has all the labels, and passes the policies.
func (in *inclusion) includes(c *constraint, n *snapshot.Node) bool {
	for _, column := range in.columns {
		if column.Of[n.Index] < 0 {
			return false
		}
	}
	if c.honorAffinity && in.selects {
		if ok, err := in.affinity.Match(n.Obj); !ok || err != nil {
			return false
		}
	}
	if c.honorTaints && len(n.Obj.Spec.Taints) > 0 {
		_, untolerated := corev1.FindMatchingUntoleratedTaint(klog.Background(), n.Obj.Spec.Taints,
			in.pod.Spec.Tolerations, keepsOut, false)
		return !untolerated
	}
	return true
}

func keepsOut(t *v1.Taint) bool {
	return t.Effect == v1.TaintEffectNoSchedule || t.Effect == v1.TaintEffectNoExecute
}

// count calls visit with how many pods that c selects are on each node.
func (c *constraint) count(namespace string, s *snapshot.Snapshot, visit func(n *snapshot.Node, pods int)) {
	s.ClassesIn(namespace, func(class *snapshot.Class) {
		if class.Terminating || !c.selector.Matches(class.Labels) {
			return
		}
		for n, pods := range class.On {
			if n.Index >= 0 {
				visit(n, pods)
			}
		}
	})
}
