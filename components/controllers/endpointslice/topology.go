package endpointslice

import (
	"context"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/endpointslice/topologycache"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/controllers/nodes"
)

// topologyKey is the only key of the loop that looks at all nodes.
const topologyKey = "nodes"

// topology gives the endpoints of Services that ask for it hints in proportion to the CPU of zones
// (https://kubernetes.io/docs/concepts/services-networking/topology-aware-routing/). It is safe for concurrent use.
type topology struct {
	cache  *topologycache.TopologyCache
	mu     sync.Mutex
	asking sets.Set[string] // Services that ask for hints, by key
}

func newTopology() *topology {
	return &topology{cache: topologycache.NewTopologyCache(), asking: sets.New[string]()}
}

// asksForHints tells whether a Service's hints follow zones. The annotation that is deprecated counts before the other.
func asksForHints(service *v1.Service) bool {
	mode, old := service.Annotations[v1.DeprecatedAnnotationTopologyAwareHints]
	if !old {
		mode = service.Annotations[v1.AnnotationTopologyMode]
	}
	return mode == "Auto" || mode == "auto"
}

// hint brings the hints of p up to date, and returns what to tell of it. Hints by zones come before the Service's
// traffic distribution, whose hints are part of the endpoints of p already.
func (t *topology) hint(ctx context.Context, key string, o observed, p *plan) []*topologycache.EventBuilder {
	for _, slice := range p.delete {
		if !served(o.service, slice.AddressType) {
			t.cache.RemoveHints(key, slice.AddressType)
		}
	}
	asks := asksForHints(o.service)
	var events []*topologycache.EventBuilder
	for _, addresses := range addressTypes(o.service) {
		switch {
		case asks:
			events = append(events, t.assign(ctx, key, addresses, o, p)...)
		case t.cache.HasPopulatedHints(key):
			events = append(events, &topologycache.EventBuilder{
				EventType: v1.EventTypeWarning, Reason: "TopologyAwareHintsDisabled",
				Message: topologycache.FormatWithAddressType(topologycache.TopologyAwareHintsDisabled, addresses),
			})
			t.cache.RemoveHints(key, addresses)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if asks {
		t.asking.Insert(key)
	} else {
		t.asking.Delete(key)
	}
	return events
}

// assign gives the endpoints of one address type their hints, or takes all of these away.
func (t *topology) assign(ctx context.Context, key string, addresses discovery.AddressType, o observed,
	p *plan) []*topologycache.EventBuilder {
	create, others := byType(p.create, addresses)
	update, otherUpdates := byType(p.update, addresses)
	unchanged := slices.DeleteFunc(slices.Clone(o.slices), func(s *discovery.EndpointSlice) bool {
		same := func(other *discovery.EndpointSlice) bool { return other.Name == s.Name }
		return s.AddressType != addresses || s.DeletionTimestamp != nil || slices.ContainsFunc(p.update, same) ||
			slices.ContainsFunc(p.delete, same)
	})
	create, update, events := t.cache.AddHints(klog.FromContext(ctx), &topologycache.SliceInfo{
		ServiceKey: key, AddressType: addresses, ToCreate: create, ToUpdate: update, Unchanged: unchanged,
	})
	p.create, p.update = append(others, create...), append(otherUpdates, update...)
	return events
}

// byType parts slices of one address type from others.
func byType(all []*discovery.EndpointSlice,
	addresses discovery.AddressType) (of, others []*discovery.EndpointSlice) {
	for _, slice := range all {
		if slice.AddressType == addresses {
			of = append(of, slice)
		} else {
			others = append(others, slice)
		}
	}
	return of, others
}

// forget drops everything about a Service that is gone.
func (t *topology) forget(key string) {
	for _, addresses := range []discovery.AddressType{discovery.AddressTypeIPv4, discovery.AddressTypeIPv6} {
		t.cache.RemoveHints(key, addresses)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asking.Delete(key)
}

// concerned returns the Services whose hints no longer suit the nodes, or may be possible now.
func (t *topology) concerned() []string {
	keys := sets.New(t.cache.GetOverloadedServices()...)
	t.mu.Lock()
	defer t.mu.Unlock()
	for key := range t.asking {
		if !t.cache.HasPopulatedHints(key) {
			keys.Insert(key)
		}
	}
	return sets.List(keys)
}

// sameCapacity tells whether a node gives zones what it gave them before.
func sameCapacity(old, new *v1.Node) bool {
	return old != nil && new != nil && old.Labels[v1.LabelTopologyZone] == new.Labels[v1.LabelTopologyZone] &&
		nodes.Ready(old) == nodes.Ready(new) && old.Status.Allocatable.Cpu().Equal(*new.Status.Allocatable.Cpu())
}

// weigh takes the nodes into account as they are now, and looks again at the Services that this concerns.
func (c *Controller) weigh(ctx context.Context, _ string) error {
	all, err := c.nodes.List(labels.Everything())
	if err != nil {
		return err
	}
	c.topology.cache.SetNodes(klog.FromContext(ctx), all)
	for _, key := range c.topology.concerned() {
		c.loop.Add(key)
	}
	return nil
}
