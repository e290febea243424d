package snapshot

import (
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// volumes are the storage objects of the cluster. What the scheduler assumes of claims and volumes, before the API
// server confirms it, hides what their informers said.
type volumes struct {
	claims      assumable[types.NamespacedName, *v1.PersistentVolumeClaim]
	volumes     assumable[string, *v1.PersistentVolume]
	index       volumeIndex
	classes     map[string]*storagev1.StorageClass
	csiNodes    map[string]*storagev1.CSINode
	csiDrivers  map[string]*storagev1.CSIDriver
	capacities  map[types.NamespacedName]*storagev1.CSIStorageCapacity
	reach       capacityIndex
	attachments map[string]map[string]*storagev1.VolumeAttachment // by node, by name
}

func newVolumes() volumes {
	return volumes{
		claims:      newAssumable[types.NamespacedName, *v1.PersistentVolumeClaim](),
		volumes:     newAssumable[string, *v1.PersistentVolume](),
		index:       newVolumeIndex(),
		classes:     map[string]*storagev1.StorageClass{},
		csiNodes:    map[string]*storagev1.CSINode{},
		csiDrivers:  map[string]*storagev1.CSIDriver{},
		capacities:  map[types.NamespacedName]*storagev1.CSIStorageCapacity{},
		reach:       capacityIndex{},
		attachments: map[string]map[string]*storagev1.VolumeAttachment{},
	}
}

// assumable holds objects as the API server has them, and assumed versions of some.
type assumable[K comparable, T metav1.Object] struct{ confirmed, assumed map[K]T }

func newAssumable[K comparable, T metav1.Object]() assumable[K, T] {
	return assumable[K, T]{confirmed: map[K]T{}, assumed: map[K]T{}}
}

// get returns the assumed version if there is one; the zero T for an unknown key.
func (a *assumable[K, T]) get(key K) T {
	if obj, ok := a.assumed[key]; ok {
		return obj
	}
	return a.confirmed[key]
}

// set takes what the informer says. It ends an assumption that was made of another version of the object.
func (a *assumable[K, T]) set(key K, obj T) {
	if assumed, ok := a.assumed[key]; ok && assumed.GetResourceVersion() != obj.GetResourceVersion() {
		delete(a.assumed, key)
	}
	a.confirmed[key] = obj
}

func (a *assumable[K, T]) remove(key K) {
	delete(a.confirmed, key)
	delete(a.assumed, key)
}

// assume keeps obj, which must carry the resource version of the object that it was made from, unless a newer one is
// known already.
func (a *assumable[K, T]) assume(key K, obj T) bool {
	now, ok := a.confirmed[key]
	if !ok || now.GetResourceVersion() != obj.GetResourceVersion() {
		return false
	}
	a.assumed[key] = obj
	return true
}

// SetClaim keeps a PersistentVolumeClaim.
func (v *volumes) SetClaim(obj *v1.PersistentVolumeClaim) {
	v.claims.set(types.NamespacedName{Namespace: obj.Namespace, Name: obj.Name}, obj)
}

// RemoveClaim forgets a claim.
func (v *volumes) RemoveClaim(name types.NamespacedName) { v.claims.remove(name) }

// Claim returns a claim as it is assumed to be, or nil.
func (v *volumes) Claim(name types.NamespacedName) *v1.PersistentVolumeClaim {
	return v.claims.get(name)
}

// ConfirmedClaim returns a claim as the API server has it, or nil.
func (v *volumes) ConfirmedClaim(name types.NamespacedName) *v1.PersistentVolumeClaim {
	return v.claims.confirmed[name]
}

// AssumeClaim takes the claim to be obj until the API server says otherwise; false if obj is outdated.
func (v *volumes) AssumeClaim(obj *v1.PersistentVolumeClaim) bool {
	return v.claims.assume(types.NamespacedName{Namespace: obj.Namespace, Name: obj.Name}, obj)
}

// RestoreClaim ends the assumption about a claim.
func (v *volumes) RestoreClaim(name types.NamespacedName) { delete(v.claims.assumed, name) }

// SetVolume keeps a PersistentVolume.
func (v *volumes) SetVolume(obj *v1.PersistentVolume) {
	v.volumes.set(obj.Name, obj)
	v.index.file(obj.Name, v.volumes.get(obj.Name))
}

// RemoveVolume forgets a volume.
func (v *volumes) RemoveVolume(name string) {
	v.volumes.remove(name)
	v.index.drop(name)
}

// Volume returns a volume as it is assumed to be, or nil.
func (v *volumes) Volume(name string) *v1.PersistentVolume { return v.volumes.get(name) }

// ConfirmedVolume returns a volume as the API server has it, or nil.
func (v *volumes) ConfirmedVolume(name string) *v1.PersistentVolume { return v.volumes.confirmed[name] }

// AssumeVolume takes the volume to be obj until the API server says otherwise; false if obj is outdated.
func (v *volumes) AssumeVolume(obj *v1.PersistentVolume) bool {
	if !v.volumes.assume(obj.Name, obj) {
		return false
	}
	v.index.file(obj.Name, obj)
	return true
}

// RestoreVolume ends the assumption about a volume.
func (v *volumes) RestoreVolume(name string) {
	delete(v.volumes.assumed, name)
	v.index.file(name, v.volumes.get(name))
}

// SetStorageClass keeps a StorageClass.
func (v *volumes) SetStorageClass(obj *storagev1.StorageClass) { v.classes[obj.Name] = obj }

// RemoveStorageClass forgets a class.
func (v *volumes) RemoveStorageClass(name string) { delete(v.classes, name) }

// StorageClass returns a class or nil.
func (v *volumes) StorageClass(name string) *storagev1.StorageClass { return v.classes[name] }

// SetCSINode keeps a CSINode.
func (v *volumes) SetCSINode(obj *storagev1.CSINode) { v.csiNodes[obj.Name] = obj }

// RemoveCSINode forgets a CSINode.
func (v *volumes) RemoveCSINode(name string) { delete(v.csiNodes, name) }

// CSINode returns what is known of the drivers on a node, or nil.
func (v *volumes) CSINode(name string) *storagev1.CSINode { return v.csiNodes[name] }

// CSINodes calls visit for every CSINode.
func (v *volumes) CSINodes(visit func(*storagev1.CSINode)) {
	for _, obj := range v.csiNodes {
		visit(obj)
	}
}

// SetCSIDriver keeps a CSIDriver.
func (v *volumes) SetCSIDriver(obj *storagev1.CSIDriver) { v.csiDrivers[obj.Name] = obj }

// RemoveCSIDriver forgets a driver.
func (v *volumes) RemoveCSIDriver(name string) { delete(v.csiDrivers, name) }

// CSIDriver returns a driver or nil.
func (v *volumes) CSIDriver(name string) *storagev1.CSIDriver { return v.csiDrivers[name] }

// SetCapacity keeps a CSIStorageCapacity.
func (v *volumes) SetCapacity(obj *storagev1.CSIStorageCapacity) {
	name := types.NamespacedName{Namespace: obj.Namespace, Name: obj.Name}
	v.RemoveCapacity(name)
	v.capacities[name] = obj
	v.reach.add(obj)
}

// RemoveCapacity forgets a capacity.
func (v *volumes) RemoveCapacity(name types.NamespacedName) {
	if old, ok := v.capacities[name]; ok {
		delete(v.capacities, name)
		v.reach.remove(old)
	}
}

// SetAttachment keeps a VolumeAttachment, whose node never changes.
func (v *volumes) SetAttachment(obj *storagev1.VolumeAttachment) {
	node := obj.Spec.NodeName
	if v.attachments[node] == nil {
		v.attachments[node] = map[string]*storagev1.VolumeAttachment{}
	}
	v.attachments[node][obj.Name] = obj
}

// RemoveAttachment forgets a VolumeAttachment.
func (v *volumes) RemoveAttachment(obj *storagev1.VolumeAttachment) {
	delete(v.attachments[obj.Spec.NodeName], obj.Name)
	if len(v.attachments[obj.Spec.NodeName]) == 0 {
		delete(v.attachments, obj.Spec.NodeName)
	}
}

// AttachmentCount returns the number of VolumeAttachments of a node.
func (v *volumes) AttachmentCount(node string) int { return len(v.attachments[node]) }

// Attachments calls visit for every VolumeAttachment of a node.
func (v *volumes) Attachments(node string, visit func(*storagev1.VolumeAttachment)) {
	for _, obj := range v.attachments[node] {
		visit(obj)
	}
}
