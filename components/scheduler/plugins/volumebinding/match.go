package volumebinding

import (
	"cmp"
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
	pod            *snapshot.Pod
	snapshot       *snapshot.Snapshot
	bound, unbound []*v1.PersistentVolumeClaim
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

// Check implements cycle.Test.
func (t *test) Check(n *snapshot.Node) *cycle.Refusal {
	var reasons []string
	if reason := t.checkBound(n.Obj); reason != "" {
		reasons = append(reasons, reason)
	}
	if _, reason := t.plan(n.Obj); reason != "" {
		reasons = append(reasons, reason)
	}
	if len(reasons) == 0 {
		return nil
	}
	return refuse(reasons...)
}

// Keep implements cycle.Keeper: the plan for the node, or nil if all claims are bound.
func (t *test) Keep(n *snapshot.Node) any {
	if len(t.unbound) == 0 {
		return nil
	}
	p, _ := t.plan(n.Obj)
	return p
}

// checkBound returns why the volumes of the bound claims can't be used on a node.
func (t *test) checkBound(node *v1.Node) string {
	for _, claim := range t.bound {
		pv := t.snapshot.Volume(claim.Spec.VolumeName)
		if pv == nil {
			return reasonNoVolume
		}
		if volume.CheckNodeAffinity(pv, node.Labels) != nil {
			return reasonNodeConflict
		}
	}
	return ""
}

// plan finds a volume for each unbound claim, the smallest claims first, or has it provisioned.
func (t *test) plan(node *v1.Node) (*plan, string) {
	p := &plan{all: slices.Concat(t.bound, t.unbound)}
	if len(t.unbound) == 0 {
		return p, ""
	}
	claims := slices.Clone(t.unbound)
	slices.SortStableFunc(claims, func(a, b *v1.PersistentVolumeClaim) int {
		x, y := a.Spec.Resources.Requests[v1.ResourceStorage], b.Spec.Resources.Requests[v1.ResourceStorage]
		return x.Cmp(y)
	})
	taken := map[string]*v1.PersistentVolume{}
	for _, claim := range claims {
		if selected, ok := claim.Annotations[volume.AnnSelectedNode]; ok {
			if selected != node.Name {
				return nil, reasonBindConflict
			}
			p.provision = append(p.provision, claim)
			continue
		}
		candidates := t.snapshot.VolumesOf(volume.GetPersistentVolumeClaimClass(claim))
		slices.SortFunc(candidates, func(a, b *v1.PersistentVolume) int { return cmp.Compare(a.Name, b.Name) })
		pv, err := volume.FindMatchingVolume(claim, candidates, node, taken, true, true)
		if err != nil {
			return nil, reasonBindConflict // the API server admits no such selector
		}
		if pv == nil {
			p.provision = append(p.provision, claim)
			continue
		}
		taken[pv.Name] = pv
		p.static = append(p.static, binding{claim, pv})
	}
	for _, claim := range p.provision {
		if reason := t.provisionable(claim, node); reason != "" {
			return nil, reason
		}
	}
	return p, ""
}

// provisionable returns why no volume can be provisioned for a claim on a node.
func (t *test) provisionable(claim *v1.PersistentVolumeClaim, node *v1.Node) string {
	class := t.snapshot.StorageClass(volume.GetPersistentVolumeClaimClass(claim))
	switch {
	case class == nil, class.Provisioner == "", class.Provisioner == volume.NotSupportedProvisioner:
		return reasonBindConflict
	case !inTopology(class.AllowedTopologies, node):
		return reasonBindConflict
	case !t.hasCapacity(claim, class, node):
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
func (t *test) hasCapacity(claim *v1.PersistentVolumeClaim, class *storagev1.StorageClass, node *v1.Node) bool {
	asked, ok := claim.Spec.Resources.Requests[v1.ResourceStorage]
	driver := t.snapshot.CSIDriver(class.Provisioner)
	if !ok || driver == nil || driver.Spec.StorageCapacity == nil || !*driver.Spec.StorageCapacity {
		return true
	}
	enough := false
	t.snapshot.Capacities(func(c *storagev1.CSIStorageCapacity) bool {
		limit := c.Capacity
		if c.MaximumVolumeSize != nil {
			limit = c.MaximumVolumeSize
		}
		enough = c.StorageClassName == class.Name && limit != nil && limit.Cmp(asked) >= 0 && reaches(c, node)
		return !enough
	})
	return enough
}

// reaches tells whether a capacity is usable from a node.
func reaches(c *storagev1.CSIStorageCapacity, node *v1.Node) bool {
	if c.NodeTopology == nil {
		return false
	}
	selector, err := metav1.LabelSelectorAsSelector(c.NodeTopology)
	return err == nil && selector.Matches(labels.Set(node.Labels))
}
