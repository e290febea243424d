package snapshot

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/dynamic-resource-allocation/structured"

	"quintet.dev/quintet/internal/resources"
)

// devices are the objects of dynamic resource allocation
// (https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/). What the scheduler has
// decided of claims, before the API server confirms it, hides what their informer said.
type devices struct {
	resourceClaims map[types.NamespacedName]*resourcev1.ResourceClaim
	// pending are the allocations that were decided and not written yet, by the UID of their claims.
	pending       map[types.UID]*resourcev1.ResourceClaim
	slices        map[string]*resourcev1.ResourceSlice
	pools         *pools
	deviceClasses map[string]*resourcev1.DeviceClass
	extended      map[v1.ResourceName]*resourcev1.DeviceClass
	allocated     allocated
}

func newDevices() devices {
	pools := newPools()
	return devices{
		pools:          pools,
		resourceClaims: map[types.NamespacedName]*resourcev1.ResourceClaim{},
		pending:        map[types.UID]*resourcev1.ResourceClaim{},
		slices:         map[string]*resourcev1.ResourceSlice{},
		deviceClasses:  map[string]*resourcev1.DeviceClass{},
		extended:       map[v1.ResourceName]*resourcev1.DeviceClass{},
		allocated:      newAllocated(pools.allocated),
	}
}

func keyOf(obj metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// SetResourceClaim keeps a ResourceClaim, unless a newer version of it is known.
func (d *devices) SetResourceClaim(obj *resourcev1.ResourceClaim) {
	old := d.resourceClaims[keyOf(obj)]
	if old != nil && old.UID == obj.UID {
		order, err := resourceversion.CompareResourceVersion(obj.ResourceVersion, old.ResourceVersion)
		if err == nil && order < 0 {
			return
		}
	}
	d.resourceClaims[keyOf(obj)] = obj
	if old != nil && old.UID != obj.UID {
		d.charge(old.UID, nil)
	}
	d.charge(obj.UID, obj)
}

// RemoveResourceClaim forgets a claim.
func (d *devices) RemoveResourceClaim(obj *resourcev1.ResourceClaim) {
	if now := d.resourceClaims[keyOf(obj)]; now != nil && now.UID == obj.UID {
		delete(d.resourceClaims, keyOf(obj))
		d.charge(obj.UID, nil)
	}
}

// ResourceClaim returns a claim, or nil.
func (d *devices) ResourceClaim(name types.NamespacedName) *resourcev1.ResourceClaim {
	return d.resourceClaims[name]
}

// ResourceClaims calls visit for every claim until it returns false.
func (d *devices) ResourceClaims(visit func(*resourcev1.ResourceClaim) bool) {
	for _, obj := range d.resourceClaims {
		if !visit(obj) {
			return
		}
	}
}

// WroteResourceClaim takes in what the API server answered to a write; false if the claim is not known, as it is gone
// or its informer has yet to tell of it.
func (d *devices) WroteResourceClaim(obj *resourcev1.ResourceClaim) bool {
	if now := d.resourceClaims[keyOf(obj)]; now == nil || now.UID != obj.UID {
		return false
	}
	d.SetResourceClaim(obj)
	return true
}

// BeginAllocation has the devices of a claim count as allocated before that is written.
func (d *devices) BeginAllocation(obj *resourcev1.ResourceClaim) {
	d.pending[obj.UID] = obj
	d.allocated.charge(obj.UID, obj)
}

// EndAllocation ends that: the claim counts as its last known version says.
func (d *devices) EndAllocation(obj *resourcev1.ResourceClaim) {
	if _, ok := d.pending[obj.UID]; !ok {
		return
	}
	delete(d.pending, obj.UID)
	now := d.resourceClaims[keyOf(obj)]
	if now != nil && now.UID != obj.UID {
		now = nil
	}
	d.allocated.charge(obj.UID, now)
}

// Allocating tells whether an allocation of the claim was decided and is not written yet.
func (d *devices) Allocating(uid types.UID) bool { return d.pending[uid] != nil }

// Allocated returns the devices that claims have. It must not be changed, and is valid until the next change of d.
func (d *devices) Allocated() structured.AllocatedState { return d.allocated.state }

// charge counts what a claim has, unless a pending allocation of it counts.
func (d *devices) charge(uid types.UID, obj *resourcev1.ResourceClaim) {
	if d.pending[uid] == nil {
		d.allocated.charge(uid, obj)
	}
}

// SetResourceSlice keeps a ResourceSlice.
func (d *devices) SetResourceSlice(obj *resourcev1.ResourceSlice) {
	d.RemoveResourceSlice(obj.Name)
	d.slices[obj.Name] = obj
	d.pools.add(obj)
}

// RemoveResourceSlice forgets a slice.
func (d *devices) RemoveResourceSlice(name string) {
	if old, ok := d.slices[name]; ok {
		delete(d.slices, name)
		d.pools.remove(old)
	}
}

// ResourceSlices returns all slices, in no order.
func (d *devices) ResourceSlices() []*resourcev1.ResourceSlice {
	all := make([]*resourcev1.ResourceSlice, 0, len(d.slices))
	for _, obj := range d.slices {
		all = append(all, obj)
	}
	return all
}

// SetDeviceClass keeps a DeviceClass.
func (d *devices) SetDeviceClass(obj *resourcev1.DeviceClass) {
	d.deviceClasses[obj.Name] = obj
	d.classesChanged()
}

// RemoveDeviceClass forgets a class.
func (d *devices) RemoveDeviceClass(name string) {
	delete(d.deviceClasses, name)
	d.classesChanged()
}

// DeviceClass returns a class, or nil.
func (d *devices) DeviceClass(name string) *resourcev1.DeviceClass { return d.deviceClasses[name] }

// DeviceClasses returns all classes, in no order.
func (d *devices) DeviceClasses() []*resourcev1.DeviceClass {
	all := make([]*resourcev1.DeviceClass, 0, len(d.deviceClasses))
	for _, obj := range d.deviceClasses {
		all = append(all, obj)
	}
	return all
}

// DeviceClassFor returns the class whose devices serve an extended resource, or nil (KEP-5004): the one that names it,
// or the one that the resource names. Of several the newest is taken, then the one with the lowest name.
func (d *devices) DeviceClassFor(name v1.ResourceName) *resourcev1.DeviceClass {
	if class, implicit := strings.CutPrefix(string(name), resourcev1.ResourceDeviceClassPrefix); implicit {
		return d.deviceClasses[class]
	}
	return d.extended[name]
}

// IsExtended tells whether device classes can serve a resource: one with a domain of its own, or that names a class.
func IsExtended(name v1.ResourceName) bool {
	return strings.HasPrefix(string(name), resourcev1.ResourceDeviceClassPrefix) || resources.Extended(name)
}

func (d *devices) classesChanged() {
	d.pools.last++
	d.pools.all = d.pools.last
	clear(d.extended)
	for _, class := range d.deviceClasses {
		if class.Spec.ExtendedResourceName == nil {
			continue
		}
		name := v1.ResourceName(*class.Spec.ExtendedResourceName)
		if other := d.extended[name]; other == nil || newer(class, other) {
			d.extended[name] = class
		}
	}
}

func newer(a, b *resourcev1.DeviceClass) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return b.CreationTimestamp.Before(&a.CreationTimestamp)
	}
	return a.Name < b.Name
}
