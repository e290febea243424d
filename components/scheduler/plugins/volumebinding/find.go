package volumebinding

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"
)

// unboundClaim is a claim, and what is the same for it on all nodes.
type unboundClaim struct {
	*v1.PersistentVolumeClaim
	class    string
	selector labels.Selector // nil is every volume
	invalid  bool            // the selector, which the API server does not admit

	node        string // that was selected to provision its volume, if selected
	selected    bool
	provisioner *storagev1.StorageClass // nil if no volume can be provisioned
	limited     bool                    // by CSIStorageCapacities

	bound *v1.PersistentVolume // that the user bound to the claim; nil for none
	open  *v1.PersistentVolume // the best that every node can use, or nil
}

// add takes in a claim that the scheduler binds.
func (t *test) add(claim *v1.PersistentVolumeClaim) {
	u := &unboundClaim{PersistentVolumeClaim: claim, class: volume.GetPersistentVolumeClaimClass(claim)}
	u.node, u.selected = claim.Annotations[volume.AnnSelectedNode]
	if claim.Spec.Selector != nil {
		selector, err := metav1.LabelSelectorAsSelector(claim.Spec.Selector)
		u.selector, u.invalid = selector, err != nil
	}
	class := t.snapshot.StorageClass(u.class)
	if class != nil && class.Provisioner != "" && class.Provisioner != volume.NotSupportedProvisioner {
		_, sized := claim.Spec.Resources.Requests[v1.ResourceStorage]
		driver := t.snapshot.CSIDriver(class.Provisioner)
		u.provisioner = class
		u.limited = sized && driver != nil && driver.Spec.StorageCapacity != nil && *driver.Spec.StorageCapacity
	}
	t.snapshot.VolumesOfClaim(nameOf(claim), func(pv *v1.PersistentVolume) {
		if u.bound == nil && volume.GetPersistentVolumeClass(pv) == u.class && u.suits(pv) &&
			volume.IsVolumeBoundToClaim(pv, claim) {
			u.bound = pv
		}
	})
	u.open = t.findOpen(u, nil)
	t.unbound = append(t.unbound, u)
}

// findOpen returns the best volume for a claim of those that every node can use, or nil.
func (t *test) findOpen(claim *unboundClaim, taken map[string]*v1.PersistentVolume) *v1.PersistentVolume {
	var best *v1.PersistentVolume
	t.snapshot.OpenVolumes(claim.class, func(pv *v1.PersistentVolume) bool {
		if taken[pv.Name] == nil && claim.suits(pv) && claim.available(pv) {
			best = pv
		}
		return best == nil
	})
	return best
}

// find returns the volume for a claim on a node, or nil: the one that is bound to it if there is one, else the smallest
// of those that are large enough, as volume.FindMatchingVolume finds it among all volumes.
func (t *test) find(claim *unboundClaim, node *v1.Node, taken map[string]*v1.PersistentVolume) *v1.PersistentVolume {
	if pv := claim.bound; pv != nil && taken[pv.Name] == nil {
		if volume.CheckNodeAffinity(pv, node.Labels) != nil {
			return nil
		}
		return pv
	}
	best := claim.open
	if best != nil && taken[best.Name] != nil {
		best = t.findOpen(claim, taken)
	}
	t.snapshot.LocalVolumes(claim.class, node, func(pv *v1.PersistentVolume, matches bool) bool {
		switch {
		case best != nil && !smaller(pv, best):
			return false
		case taken[pv.Name] == nil && claim.suits(pv) && claim.available(pv) &&
			(matches || volume.CheckNodeAffinity(pv, node.Labels) == nil):
			best = pv
			return false
		}
		return true
	})
	return best
}

// smaller tells whether a volume is smaller than another one, or as small and before it.
func smaller(a, b *v1.PersistentVolume) bool {
	size, other := a.Spec.Capacity[v1.ResourceStorage], b.Spec.Capacity[v1.ResourceStorage]
	order := size.Cmp(other)
	return order < 0 || order == 0 && a.Name < b.Name
}

// suits tells whether a volume is what the claim asks for.
func (u *unboundClaim) suits(pv *v1.PersistentVolume) bool {
	size, asked := pv.Spec.Capacity[v1.ResourceStorage], u.Spec.Resources.Requests[v1.ResourceStorage]
	return size.Cmp(asked) >= 0 && pv.DeletionTimestamp == nil &&
		!volume.CheckVolumeModeMismatches(&u.Spec, &pv.Spec) &&
		ptr.Deref(u.Spec.VolumeAttributesClassName, "") == ptr.Deref(pv.Spec.VolumeAttributesClassName, "")
}

// available tells whether the claim can be bound to a volume that is not bound yet.
func (u *unboundClaim) available(pv *v1.PersistentVolume) bool {
	return pv.Status.Phase == v1.VolumeAvailable && (u.selector == nil || u.selector.Matches(labels.Set(pv.Labels))) &&
		!slices.ContainsFunc(u.Spec.AccessModes, func(mode v1.PersistentVolumeAccessMode) bool {
			return !slices.Contains(pv.Spec.AccessModes, mode)
		})
}
