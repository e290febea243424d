package snapshot

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"
)

// volumeIndex finds the volumes that a claim may be bound to on a node without a look at all others. Volumes that are
// bound to a claim are found by that claim only.
type volumeIndex struct {
	filed   map[string]*filedVolume
	free    map[string]*freeVolumes // by class
	ofClaim map[types.NamespacedName][]*filedVolume
}

// freeVolumes are the volumes of a class that are not bound, the smallest first.
type freeVolumes struct {
	open  []*filedVolume // without an affinity
	local *labelIndex[*filedVolume]
}

// filedVolume is a volume and what the index knows of it.
type filedVolume struct {
	*v1.PersistentVolume
	class string
	open  bool
	asked asked // of one that is free and not open
	whole bool  // asked is all that the volume asks for
}

func newVolumeIndex() volumeIndex {
	return volumeIndex{filed: map[string]*filedVolume{}, free: map[string]*freeVolumes{},
		ofClaim: map[types.NamespacedName][]*filedVolume{}}
}

func byName(a, b *filedVolume) int { return cmp.Compare(a.Name, b.Name) }

func bySize(a, b *filedVolume) int {
	size, other := a.Spec.Capacity[v1.ResourceStorage], b.Spec.Capacity[v1.ResourceStorage]
	return cmp.Or(size.Cmp(other), byName(a, b))
}

// file replaces what the index says of a volume; nil is nothing.
func (x *volumeIndex) file(name string, pv *v1.PersistentVolume) {
	x.drop(name)
	if pv == nil {
		return
	}
	f := &filedVolume{PersistentVolume: pv, class: volume.GetPersistentVolumeClass(pv)}
	x.filed[name] = f
	if claim, bound := f.claim(); bound {
		x.ofClaim[claim] = insert(x.ofClaim[claim], f, byName)
		return
	}
	class := x.free[f.class]
	if class == nil {
		class = &freeVolumes{local: newLabelIndex(bySize)}
		x.free[f.class] = class
	}
	if f.open = pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil; f.open {
		class.open = insert(class.open, f, bySize)
		return
	}
	f.asked, f.whole = askedBy(pv.Spec.NodeAffinity.Required)
	class.local.add(f, f.asked)
}

// claim is what a volume is bound to.
func (f *filedVolume) claim() (types.NamespacedName, bool) {
	ref := f.Spec.ClaimRef
	if ref == nil {
		return types.NamespacedName{}, false
	}
	return types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}, true
}

func (x *volumeIndex) drop(name string) {
	f, ok := x.filed[name]
	if !ok {
		return
	}
	delete(x.filed, name)
	if claim, bound := f.claim(); bound {
		if x.ofClaim[claim] = without(x.ofClaim[claim], f, byName); len(x.ofClaim[claim]) == 0 {
			delete(x.ofClaim, claim)
		}
		return
	}
	class := x.free[f.class]
	if f.open {
		class.open = without(class.open, f, bySize)
	} else {
		class.local.remove(f, f.asked)
	}
	if len(class.open) == 0 && class.local.empty() {
		delete(x.free, f.class)
	}
}

// askedBy returns a label of nodes without one of whose values none matches the selector; whole tells that every node
// with one matches.
func askedBy(selector *v1.NodeSelector) (a asked, whole bool) {
	for _, term := range selector.NodeSelectorTerms {
		i := slices.IndexFunc(term.MatchExpressions, func(r v1.NodeSelectorRequirement) bool {
			return r.Operator == v1.NodeSelectorOpIn && (a.key == "" || r.Key == a.key)
		})
		if i < 0 {
			return asked{}, false
		}
		a.key = term.MatchExpressions[i].Key
		a.values = append(a.values, term.MatchExpressions[i].Values...)
		whole = len(selector.NodeSelectorTerms) == 1 && len(term.MatchExpressions)+len(term.MatchFields) == 1
	}
	if whole { // values that no label can have make a selector that matches nothing
		_, err := labels.NewRequirement(a.key, selection.In, a.values)
		whole = err == nil
	}
	return a, whole
}

// OpenVolumes calls visit for the free volumes of a class that every node can use, the smallest first and those of a
// size in the order of their names, until it returns false.
func (v *volumes) OpenVolumes(class string, visit func(*v1.PersistentVolume) bool) {
	free := v.index.free[class]
	if free == nil {
		return
	}
	for _, f := range free.open {
		if !visit(f.PersistentVolume) {
			return
		}
	}
}

// LocalVolumes calls visit for the free volumes of a class whose affinity a node may match; matches tells that it does.
// They come in lists, each in the order of OpenVolumes, which ends once visit returns false.
func (v *volumes) LocalVolumes(class string, node *v1.Node, visit func(pv *v1.PersistentVolume, matches bool) bool) {
	free := v.index.free[class]
	if free == nil {
		return
	}
	free.local.find(node.Labels, func(list []*filedVolume) bool {
		for _, f := range list {
			if !visit(f.PersistentVolume, f.whole) {
				break
			}
		}
		return true
	})
}

// VolumesOfClaim calls visit for the volumes that are bound to a claim of this name, in the order of their names.
func (v *volumes) VolumesOfClaim(claim types.NamespacedName, visit func(*v1.PersistentVolume)) {
	for _, f := range v.index.ofClaim[claim] {
		visit(f.PersistentVolume)
	}
}

// capacityIndex finds the CSIStorageCapacities of a class that a node may reach.
type capacityIndex map[string]*labelIndex[*storagev1.CSIStorageCapacity]

func (x capacityIndex) add(c *storagev1.CSIStorageCapacity) {
	if x[c.StorageClassName] == nil {
		x[c.StorageClassName] = newLabelIndex(func(a, b *storagev1.CSIStorageCapacity) int {
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
		})
	}
	x[c.StorageClassName].add(c, topologyOf(c))
}

func (x capacityIndex) remove(c *storagev1.CSIStorageCapacity) {
	class := x[c.StorageClassName]
	class.remove(c, topologyOf(c))
	if class.empty() {
		delete(x, c.StorageClassName)
	}
}

// topologyOf returns a label without whose value no node reaches a capacity.
func topologyOf(c *storagev1.CSIStorageCapacity) asked {
	if c.NodeTopology == nil || len(c.NodeTopology.MatchLabels) == 0 {
		return asked{}
	}
	var a asked
	for key, value := range c.NodeTopology.MatchLabels {
		if a.key == "" || key < a.key {
			a = asked{key, []string{value}}
		}
	}
	return a
}

// CapacitiesFor calls visit for the CSIStorageCapacities of a class until it returns false, without some that a node
// with these labels does not reach.
func (v *volumes) CapacitiesFor(class string, labels map[string]string,
	visit func(*storagev1.CSIStorageCapacity) bool) {
	reach := v.reach[class]
	if reach == nil {
		return
	}
	reach.find(labels, func(list []*storagev1.CSIStorageCapacity) bool {
		for _, c := range list {
			if !visit(c) {
				return false
			}
		}
		return true
	})
}
