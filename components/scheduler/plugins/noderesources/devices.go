package noderesources

import (
	"context"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/scheduler/snapshot"
)

// deviceCount is how many devices that serve an extended resource there are on a node, and how many are allocated.
type deviceCount struct{ taken, total int64 }

// servedDevices counts the devices of one device class (KEP-5004).
type servedDevices struct {
	on map[string]deviceCount // by the node that a slice or device names
	// elsewhere are those for several nodes.
	elsewhere []selected
}

type selected struct {
	all      bool
	selector *v1.NodeSelector
	count    deviceCount
}

// of counts for one node; a selector that can't be evaluated selects nothing.
func (d *servedDevices) of(n *snapshot.Node) deviceCount {
	sum := d.on[n.Name]
	for _, s := range d.elsewhere {
		matches, err := structured.NodeMatches(structured.Features{}, n.Obj, "", s.all, s.selector)
		if err == nil && matches {
			sum.taken += s.count.taken
			sum.total += s.count.total
		}
	}
	return sum
}

// devicesFor counts the devices for those of the resources that device classes serve; nil for none.
func (f *Fit) devicesFor(s *snapshot.Snapshot, resources []Resource) map[v1.ResourceName]*servedDevices {
	if !f.Devices {
		return nil
	}
	var served map[v1.ResourceName]*servedDevices
	for _, r := range resources {
		if !scalar(r.Name) || !snapshot.IsExtended(r.Name) {
			continue
		}
		class := s.DeviceClassFor(r.Name)
		if class == nil {
			continue
		}
		if served == nil {
			served = map[v1.ResourceName]*servedDevices{}
		}
		served[r.Name] = f.countDevices(s, class)
	}
	return served
}

func (f *Fit) countDevices(s *snapshot.Snapshot, class *resourcev1.DeviceClass) *servedDevices {
	counts := &servedDevices{on: map[string]deviceCount{}}
	allocated := s.Allocated().AllocatedDevices
	for _, slice := range s.ResourceSlices() {
		for i := range slice.Spec.Devices {
			device := &slice.Spec.Devices[i]
			if !f.selects(class, slice.Spec.Driver, device) {
				continue
			}
			one := deviceCount{total: 1}
			if allocated.Has(structured.MakeDeviceID(slice.Spec.Driver, slice.Spec.Pool.Name, device.Name)) {
				one.taken = 1
			}
			counts.add(&slice.Spec, device, one)
		}
	}
	return counts
}

func (d *servedDevices) add(slice *resourcev1.ResourceSliceSpec, device *resourcev1.Device, one deviceCount) {
	node, all, selector := ptr.Deref(slice.NodeName, ""), ptr.Deref(slice.AllNodes, false), slice.NodeSelector
	if ptr.Deref(slice.PerDeviceNodeSelection, false) {
		node, all, selector = ptr.Deref(device.NodeName, ""), ptr.Deref(device.AllNodes, false), device.NodeSelector
	}
	if node == "" {
		d.elsewhere = append(d.elsewhere, selected{all, selector, one})
		return
	}
	before := d.on[node]
	d.on[node] = deviceCount{before.taken + one.taken, before.total + one.total}
}

// selects tells whether a class has a device; one with a selector that can't be evaluated has none.
func (f *Fit) selects(class *resourcev1.DeviceClass, driver string, device *resourcev1.Device) bool {
	input := cel.Device{Driver: driver, AllowMultipleAllocations: device.AllowMultipleAllocations,
		Attributes: device.Attributes, Capacity: device.Capacity}
	for _, selector := range class.Spec.Selectors {
		if selector.CEL == nil {
			return false
		}
		compiled := f.Selectors.GetOrCompile(selector.CEL.Expression)
		if compiled.Error != nil {
			return false
		}
		matches, _, err := compiled.DeviceMatches(context.Background(), input)
		if err != nil || !matches {
			return false
		}
	}
	return true
}
