package devices

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// idSet is a set of IDs of devices.
type idSet map[string]bool

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// allocation is what a container has of one resource.
type allocation struct {
	IDs      []string // sorted
	Response *pluginapi.ContainerAllocateResponse
}

// podDevices are allocations by pod, container and resource.
type podDevices map[types.UID]map[string]map[string]*allocation

// used returns the allocated devices by resource.
func (p podDevices) used() map[string]idSet {
	used := map[string]idSet{}
	for _, containers := range p {
		for _, byResource := range containers {
			for name, a := range byResource {
				if used[name] == nil {
					used[name] = idSet{}
				}
				for _, id := range a.IDs {
					used[name][id] = true
				}
			}
		}
	}
	return used
}

// set notes an allocation.
func (p podDevices) set(uid types.UID, container, name string, a *allocation) {
	if p[uid] == nil {
		p[uid] = map[string]map[string]*allocation{}
	}
	if p[uid][container] == nil {
		p[uid][container] = map[string]*allocation{}
	}
	p[uid][container][name] = a
}

// wish is what a container asks of one resource, with what is there of it.
type wish struct {
	uid                 types.UID
	container, resource string
	required            int
	had                 *allocation // nil if it has none yet
	reusable            idSet       // devices of the pod's init containers that have ended when this one starts
	registered          bool        // a plug-in served the resource, now or before
	healthy, used       idSet
}

// choice is what can be allocated: all of must, and any of available up to the number required.
type choice struct {
	must, available []string // sorted
	required        int
}

// choose tells what can be allocated; nil if the container has what it asks for.
func choose(w *wish) (*choice, error) {
	needed := w.required
	if w.had != nil && len(w.had.IDs) != needed {
		return nil, fmt.Errorf("pod %q container %q changed request for resource %q from %d to %d",
			w.uid, w.container, w.resource, len(w.had.IDs), needed)
	}
	switch {
	case !w.registered:
		return nil, fmt.Errorf("cannot allocate unregistered device %s", w.resource)
	case len(w.healthy) == 0:
		return nil, fmt.Errorf("no healthy devices present; cannot allocate unhealthy devices %s", w.resource)
	case w.had != nil && slices.ContainsFunc(w.had.IDs, func(id string) bool { return !w.healthy[id] }):
		return nil, fmt.Errorf("previously allocated devices are no longer healthy; cannot allocate unhealthy devices %s",
			w.resource)
	case w.had != nil:
		return nil, nil
	}
	c := &choice{required: needed}
	for _, id := range sortedKeys(w.reusable) {
		if len(c.must) < needed {
			c.must = append(c.must, id)
		}
	}
	for _, id := range sortedKeys(w.healthy) {
		if !w.used[id] {
			c.available = append(c.available, id)
		}
	}
	if missing := needed - len(c.must); len(c.available) < missing {
		return nil, fmt.Errorf("requested number of devices unavailable for %s. Requested: %d, Available: %d",
			w.resource, missing, len(c.available))
	}
	return c, nil
}

// pick takes the devices that the plug-in prefers, as far as they are among those it was asked about.
func (c *choice) pick(preferred []string) []string {
	ids := slices.Clone(c.must)
	for _, list := range [][]string{preferred, c.available} {
		for _, id := range list {
			if len(ids) < c.required && slices.Contains(c.available, id) && !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	slices.Sort(ids)
	return ids
}
