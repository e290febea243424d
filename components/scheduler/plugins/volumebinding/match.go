package volumebinding

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/storage/volume"

	"quintet.dev/quintet/components/scheduler/cycle"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

// test is the pod's claims: bound ones, whose volumes must be usable on a node, and those that the scheduler binds.
type test struct {
	pod      *snapshot.Pod
	snapshot *snapshot.Snapshot
	bound    []boundClaim
	unbound  []*unboundClaim
	// smallest are unbound, the smallest first.
	smallest []*unboundClaim
}

// boundClaim is a claim and its volume, which is nil if it is gone.
type boundClaim struct {
	claim  *v1.PersistentVolumeClaim
	volume *v1.PersistentVolume
}

// plan is what is to be done for a pod's claims on a node.
type plan struct {
	static    []binding
	provision []*v1.PersistentVolumeClaim
	all       []*v1.PersistentVolumeClaim
}

// binding is a claim and the existing volume for it.
type binding struct {
	claim  *v1.PersistentVolumeClaim
	volume *v1.PersistentVolume
}

// order fills t.smallest.
func (t *test) order() {
	t.smallest = t.unbound
	if len(t.unbound) < 2 {
		return
	}
	t.smallest = slices.Clone(t.unbound)
	slices.SortStableFunc(t.smallest, func(a, b *unboundClaim) int {
		x, y := a.Spec.Resources.Requests[v1.ResourceStorage], b.Spec.Resources.Requests[v1.ResourceStorage]
		return x.Cmp(y)
	})
}

// Check implements cycle.Test.
func (t *test) Check(n *snapshot.Node) *cycle.Refusal {
	bound, unbound := t.checkBound(n.Obj), t.match(n.Obj, nil)
	switch {
	case bound != "" && unbound != "":
		return refuse(bound, unbound)
	case bound != "" || unbound != "":
		return refuse(bound + unbound)
	}
	return nil
}

// Keep implements cycle.Keeper: the plan for the node, or nil if all claims are bound.
func (t *test) Keep(n *snapshot.Node) any {
	if len(t.unbound) == 0 {
		return nil
	}
	p := &plan{}
	for i := range t.bound {
		p.all = append(p.all, t.bound[i].claim)
	}
	for _, claim := range t.unbound {
		p.all = append(p.all, claim.PersistentVolumeClaim)
	}
	t.match(n.Obj, p)
	return p
}

// checkBound returns why the volumes of the bound claims can't be used on a node.
func (t *test) checkBound(node *v1.Node) string {
	for i := range t.bound {
		pv := t.bound[i].volume
		if pv == nil {
			return reasonNoVolume
		}
		if volume.CheckNodeAffinity(pv, node.Labels) != nil {
			return reasonNodeConflict
		}
	}
	return ""
}

// match finds a volume for each unbound claim, the smallest claims first, or has it provisioned. It returns why a node
// won't do; what it found is added to into, if that is not nil.
func (t *test) match(node *v1.Node, into *plan) string {
	var taken map[string]*v1.PersistentVolume
	lacking := ""
	for _, claim := range t.smallest {
		if claim.selected && claim.node != node.Name {
			return reasonBindConflict
		}
		if !claim.selected {
			if claim.invalid {
				return reasonBindConflict
			}
			if pv := t.find(claim, node, taken); pv != nil {
				if taken == nil && len(t.smallest) > 1 {
					taken = map[string]*v1.PersistentVolume{}
				}
				if taken != nil {
					taken[pv.Name] = pv
				}
				if into != nil {
					into.static = append(into.static, binding{claim.PersistentVolumeClaim, pv})
				}
				continue
			}
		}
		if into != nil {
			into.provision = append(into.provision, claim.PersistentVolumeClaim)
		}
		if lacking == "" { // that a later claim can't be bound counts first
			lacking = t.provisionable(claim, node)
		}
	}
	return lacking
}

// provisionable returns why no volume can be provisioned for a claim on a node.
func (t *test) provisionable(claim *unboundClaim, node *v1.Node) string {
	switch {
	case claim.provisioner == nil, !inTopology(claim.provisioner.AllowedTopologies, node):
		return reasonBindConflict
	case claim.limited && !t.hasCapacity(claim, node):
		return reasonNoSpace
	}
	return ""
}

// inTopology tells whether one of the terms selects the node; no terms select every node.
func inTopology(terms []v1.TopologySelectorTerm, node *v1.Node) bool {
	return len(terms) == 0 || slices.ContainsFunc(terms, func(term v1.TopologySelectorTerm) bool {
		return len(term.MatchLabelExpressions) > 0 && !slices.ContainsFunc(term.MatchLabelExpressions,
			func(r v1.TopologySelectorLabelRequirement) bool {
				value, ok := node.Labels[r.Key]
				return !ok || !slices.Contains(r.Values, value)
			})
	})
}

// hasCapacity asks the CSIStorageCapacities of a driver that publishes them.
func (t *test) hasCapacity(claim *unboundClaim, node *v1.Node) bool {
	asked, enough := claim.Spec.Resources.Requests[v1.ResourceStorage], false
	t.snapshot.CapacitiesFor(claim.class, node.Labels, func(c *storagev1.CSIStorageCapacity) bool {
		limit := c.Capacity
		if c.MaximumVolumeSize != nil {
			limit = c.MaximumVolumeSize
		}
		enough = limit != nil && limit.Cmp(asked) >= 0 && reaches(c, node)
		return !enough
	})
	return enough
}

// reaches tells whether a capacity is usable from a node.
func reaches(c *storagev1.CSIStorageCapacity, node *v1.Node) bool {
	if c.NodeTopology == nil {
		return false
	}
	for key, value := range c.NodeTopology.MatchLabels {
		if has, ok := node.Labels[key]; !ok || has != value {
			return false
		}
	}
	if len(c.NodeTopology.MatchExpressions) == 0 {
		return true
	}
	selector, err := metav1.LabelSelectorAsSelector(c.NodeTopology)
	return err == nil && selector.Matches(labels.Set(node.Labels))
}
