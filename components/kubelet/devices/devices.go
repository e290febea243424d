// Package devices is the kubelet's side of the device plug-in API (v1beta1): plug-ins register over a socket, tell
// their devices, and devices are allocated to the containers of a pod when it is admitted
// (https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/).
package devices

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"k8s.io/utils/clock"
)

// stopGracePeriod is how long the resource of a plug-in that stopped counts in the capacity of the node.
const stopGracePeriod = 5 * time.Minute

// Manager knows the plug-ins of a node, their devices, and which container has which of them. It is safe for concurrent
// use. The fields are set before Open and not changed afterwards.
type Manager struct {
	// Dir holds the registration socket, the sockets of plug-ins and the checkpoint file.
	Dir   string
	Clock clock.Clock
	// CapacityChanged is called when the devices of the node changed.
	CapacityChanged func()
	// HealthChanged is called with a pod that has a device whose health changed.
	HealthChanged func(uid types.UID)

	allocating chan struct{} // holds a value while devices are allocated: one pod after the other

	mu        sync.Mutex
	ctx       context.Context // nil while the manager does not run
	wait      sync.WaitGroup
	resources map[string]*pluginResource
	removed   map[string]bool // resources of plug-ins that did not come back
	pods      podDevices
	fresh     bool   // there was no checkpoint
	saved     []byte // what this run wrote into the checkpoint last
}

// pluginResource is an extended resource with its plug-in.
type pluginResource struct {
	endpoint *endpoint // nil while no plug-in serves it
	stopped  time.Time // since when; zero while one does
	devices  map[string]*pluginapi.Device
}

// Open reads the checkpoint: which devices pods had before the kubelet was restarted.
func (m *Manager) Open(ctx context.Context) {
	m.allocating = make(chan struct{}, 1)
	m.resources, m.removed, m.pods = map[string]*pluginResource{}, map[string]bool{}, podDevices{}
	saved, found, err := readCheckpoint(m.checkpointFile())
	m.fresh = !found && err == nil
	if err != nil {
		klog.FromContext(ctx).Error(err, "Failed to read the checkpoint of devices: devices that pods have are not known")
		return
	}
	m.pods = saved.pods
	for _, name := range saved.resources {
		m.resources[name] = &pluginResource{stopped: m.Clock.Now(), devices: map[string]*pluginapi.Device{}}
	}
}

// ResetCapacity tells that extended resources in an earlier status of the node are not true any more: the checkpoint is
// gone, as after a reboot that clears the disk.
func (m *Manager) ResetCapacity() bool { return m.fresh }

// healthy are the IDs of the devices that can be allocated.
func (r *pluginResource) healthy() idSet {
	ids := idSet{}
	for id, device := range r.devices {
		if device.Health == pluginapi.Healthy {
			ids[id] = true
		}
	}
	return ids
}

// Capacity returns what the node has of the resources of plug-ins, and what of it pods may have: devices that are not
// healthy count in the capacity only. A resource whose plug-in did not come back is 0.
func (m *Manager) Capacity() (capacity, allocatable v1.ResourceList) {
	m.mu.Lock()
	defer m.mu.Unlock()
	capacity, allocatable = v1.ResourceList{}, v1.ResourceList{}
	dropped := false
	for name, r := range m.resources {
		if r.endpoint == nil && m.Clock.Since(r.stopped) > stopGracePeriod {
			delete(m.resources, name)
			m.removed[name], dropped = true, true
			continue
		}
		capacity[v1.ResourceName(name)] = quantity(len(r.devices))
		allocatable[v1.ResourceName(name)] = quantity(len(r.healthy()))
	}
	for name := range m.removed {
		capacity[v1.ResourceName(name)], allocatable[v1.ResourceName(name)] = quantity(0), quantity(0)
	}
	if dropped {
		m.save()
	}
	return capacity, allocatable
}

func quantity(n int) resource.Quantity { return *resource.NewQuantity(int64(n), resource.DecimalSI) }

// WithAllocated returns a node that has at least what its pods were given: pods that have devices are not refused
// because the plug-in stopped since. The node is not changed.
func (m *Manager) WithAllocated(node *v1.Node) *v1.Node {
	m.mu.Lock()
	defer m.mu.Unlock()
	raised := node
	for name, ids := range m.pods.used() {
		has, known := node.Status.Allocatable[v1.ResourceName(name)]
		if known && has.CmpInt64(int64(len(ids))) >= 0 {
			continue
		}
		if raised == node {
			raised = node.DeepCopy()
			if raised.Status.Allocatable == nil {
				raised.Status.Allocatable = v1.ResourceList{}
			}
		}
		raised.Status.Allocatable[v1.ResourceName(name)] = quantity(len(ids))
	}
	return raised
}

// Release gives back the devices of a pod.
func (m *Manager) Release(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, has := m.pods[uid]; has {
		delete(m.pods, uid)
		m.save()
	}
}

// Retain gives back the devices of all pods for which keep is false.
func (m *Manager) Retain(keep func(uid types.UID) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	changed := false
	for uid := range m.pods {
		if !keep(uid) {
			delete(m.pods, uid)
			changed = true
		}
	}
	if changed {
		m.save()
	}
}

// Health returns the health of the devices of each of a pod's containers, by name (KEP-4680).
func (m *Manager) Health(uid types.UID) map[string][]v1.ResourceStatus {
	m.mu.Lock()
	defer m.mu.Unlock()
	statuses := map[string][]v1.ResourceStatus{}
	for container, byResource := range m.pods[uid] {
		for _, name := range sortedKeys(byResource) {
			s := v1.ResourceStatus{Name: v1.ResourceName(name)}
			for _, id := range byResource[name].IDs {
				s.Resources = append(s.Resources, v1.ResourceHealth{ResourceID: v1.ResourceID(id), Health: m.health(name, id)})
			}
			statuses[container] = append(statuses[container], s)
		}
	}
	return statuses
}

// health is that of one device; it is called with the lock held.
func (m *Manager) health(name, id string) v1.ResourceHealthStatus {
	r := m.resources[name]
	if r == nil || r.devices[id] == nil {
		return v1.ResourceHealthStatusUnknown
	}
	if r.devices[id].Health == pluginapi.Healthy {
		return v1.ResourceHealthStatusHealthy
	}
	return v1.ResourceHealthStatusUnhealthy
}

// Device is a device of a plug-in.
type Device struct {
	Resource, ID string
	NUMANodes    []int64
}

// Healthy returns the devices of the node that can be allocated, allocated ones included, by resource and ID.
func (m *Manager) Healthy() []Device {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []Device
	for _, name := range sortedKeys(m.resources) {
		for _, id := range sortedKeys(m.resources[name].healthy()) {
			list = append(list, m.device(name, id))
		}
	}
	return list
}

// Allocated returns the devices of a container, by resource and ID.
func (m *Manager) Allocated(uid types.UID, container string) []Device {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []Device
	byResource := m.pods[uid][container]
	for _, name := range sortedKeys(byResource) {
		for _, id := range byResource[name].IDs {
			list = append(list, m.device(name, id))
		}
	}
	return list
}

// device describes one device; it is called with the lock held.
func (m *Manager) device(name, id string) Device {
	d := Device{Resource: name, ID: id}
	if r := m.resources[name]; r != nil && r.devices[id] != nil {
		for _, node := range r.devices[id].GetTopology().GetNodes() {
			d.NUMANodes = append(d.NUMANodes, node.ID)
		}
	}
	return d
}
