package snapshot

import (
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"
)

// pools finds the ResourceSlices that matter to a node without a look at all others, and gives what matters to a node a
// new version with every change of the slices, and of which of their devices are allocated.
type pools struct {
	slices map[poolID]map[string]*resourcev1.ResourceSlice // by name
	nodes  map[string]*nodePools
	// several is the number of slices of a pool that matter to several nodes, where it has some.
	several map[poolID]int
	all     int64 // the version of what matters to all nodes
	last    int64 // the newest version
}

type poolID struct{ driver, pool string }

// nodePools are the pools with slices for one node alone.
type nodePools struct {
	version int64
	slices  map[poolID]int // how many each has
}

func newPools() *pools {
	return &pools{slices: map[poolID]map[string]*resourcev1.ResourceSlice{}, nodes: map[string]*nodePools{},
		several: map[poolID]int{}}
}

func poolOf(slice *resourcev1.ResourceSlice) poolID {
	return poolID{slice.Spec.Driver, slice.Spec.Pool.Name}
}

// nodeOf returns the one node that a slice matters to; "" for several. A pool's counters are looked at on every node.
func nodeOf(slice *resourcev1.ResourceSlice) string {
	if len(slice.Spec.SharedCounters) > 0 {
		return ""
	}
	return ptr.Deref(slice.Spec.NodeName, "")
}

func (p *pools) add(slice *resourcev1.ResourceSlice) {
	id := poolOf(slice)
	if p.slices[id] == nil {
		p.slices[id] = map[string]*resourcev1.ResourceSlice{}
	}
	p.slices[id][slice.Name] = slice
	if name := nodeOf(slice); name == "" {
		p.several[id]++
	} else {
		if p.nodes[name] == nil {
			p.nodes[name] = &nodePools{slices: map[poolID]int{}}
		}
		p.nodes[name].slices[id]++
	}
	p.changed(id)
}

func (p *pools) remove(slice *resourcev1.ResourceSlice) {
	id := poolOf(slice)
	p.changed(id)
	if delete(p.slices[id], slice.Name); len(p.slices[id]) == 0 {
		delete(p.slices, id)
	}
	name := nodeOf(slice)
	if name == "" {
		if p.several[id]--; p.several[id] == 0 {
			delete(p.several, id)
		}
		return
	}
	of := p.nodes[name]
	if of.slices[id]--; of.slices[id] == 0 {
		delete(of.slices, id)
	}
	if len(of.slices) == 0 {
		delete(p.nodes, name)
	}
}

// changed gives a new version to the nodes that a pool matters to.
func (p *pools) changed(id poolID) {
	p.last++
	for _, slice := range p.slices[id] {
		p.touch(nodeOf(slice))
	}
}

// allocated does so after a device of a pool was allocated or freed. That matters where the pool has devices, so slices
// of counters, which have none, do not count.
func (p *pools) allocated(id poolID) {
	p.last++
	for _, slice := range p.slices[id] {
		if len(slice.Spec.SharedCounters) == 0 {
			p.touch(nodeOf(slice))
		}
	}
}

func (p *pools) touch(node string) {
	if node == "" {
		p.all = p.last
		return
	}
	p.nodes[node].version = p.last
}

// DeviceVersion is equal at two times if slices, classes and allocations of devices are the same to a node.
type DeviceVersion struct{ own, all int64 }

// DeviceVersion returns the version of what there is for a node.
func (d *devices) DeviceVersion(node string) DeviceVersion {
	v := DeviceVersion{all: d.pools.all}
	if of := d.pools.nodes[node]; of != nil {
		v.own = of.version
	}
	return v
}

// SlicesFor returns all slices of the pools that have one for a node, or for several nodes, in no order.
func (d *devices) SlicesFor(node string) []*resourcev1.ResourceSlice {
	var found []*resourcev1.ResourceSlice
	if of := d.pools.nodes[node]; of != nil {
		for id := range of.slices {
			if d.pools.several[id] == 0 {
				found = d.pools.append(found, id)
			}
		}
	}
	for id := range d.pools.several {
		found = d.pools.append(found, id)
	}
	return found
}

func (p *pools) append(to []*resourcev1.ResourceSlice, id poolID) []*resourcev1.ResourceSlice {
	for _, slice := range p.slices[id] {
		to = append(to, slice)
	}
	return to
}
