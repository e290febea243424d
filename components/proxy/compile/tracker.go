package compile

import (
	"maps"
	"net/netip"
	"reflect"
	"slices"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"quintet.dev/quintet/components/proxy/model"
)

// Changes are the ports whose compiled value differs from the one taken last.
type Changes struct {
	Updated []model.ServicePort
	Deleted []model.PortKey
	// UDP is true if the serving endpoints of a UDP port may differ, even where no compiled value does: conntrack
	// entries may be stale.
	UDP bool
}

// Empty tells whether nothing changed.
func (c Changes) Empty() bool { return len(c.Updated) == 0 && len(c.Deleted) == 0 && !c.UDP }

// Tracker compiles what changes: the cost of a change is that of the Services that it touches. It keeps the objects
// that it is given, which must not be changed afterwards. It belongs to one goroutine.
type Tracker struct {
	node      Node
	proxyName string
	services  map[types.NamespacedName]*v1.Service
	slices    map[types.NamespacedName]map[string]*discoveryv1.EndpointSlice // by Service, by name
	serviceOf map[types.NamespacedName]types.NamespacedName                  // by slice
	compiled  map[types.NamespacedName][]model.ServicePort
	dirty     map[types.NamespacedName]struct{}
	health    map[types.NamespacedName]HealthCheck
	noLocal   map[v1.IPFamily]NoLocalEndpoints
}

// NoLocalEndpoints counts ports of Services with endpoints, but none on this node for traffic whose policy is Local.
type NoLocalEndpoints struct{ Internal, External int }

// New returns a Tracker without Services. It follows the Services that are left to the proxy of the name, which is
// empty for the default proxy.
func New(node Node, proxyName string) *Tracker {
	return &Tracker{
		node:      node,
		proxyName: proxyName,
		services:  map[types.NamespacedName]*v1.Service{},
		slices:    map[types.NamespacedName]map[string]*discoveryv1.EndpointSlice{},
		serviceOf: map[types.NamespacedName]types.NamespacedName{},
		compiled:  map[types.NamespacedName][]model.ServicePort{},
		dirty:     map[types.NamespacedName]struct{}{},
		health:    map[types.NamespacedName]HealthCheck{},
		noLocal:   map[v1.IPFamily]NoLocalEndpoints{},
	}
}

// SetNode takes note of the node's labels.
func (t *Tracker) SetNode(node Node) {
	if node == t.node {
		return
	}
	t.node = node
	for name := range t.services {
		t.dirty[name] = struct{}{}
	}
}

// SetService adds a Service or changes it.
func (t *Tracker) SetService(svc *v1.Service) {
	name := types.NamespacedName{Namespace: svc.Namespace, Name: svc.Name}
	t.services[name] = svc
	t.dirty[name] = struct{}{}
}

// DeleteService removes a Service; one that is not known is no error.
func (t *Tracker) DeleteService(name types.NamespacedName) {
	delete(t.services, name)
	t.dirty[name] = struct{}{}
}

// SetSlice adds an EndpointSlice or changes it. One that names no Service, or that the proxy does not read, is removed.
func (t *Tracker) SetSlice(slice *discoveryv1.EndpointSlice) {
	name := types.NamespacedName{Namespace: slice.Namespace, Name: slice.Name}
	service := types.NamespacedName{Namespace: slice.Namespace, Name: slice.Labels[discoveryv1.LabelServiceName]}
	if before, ok := t.serviceOf[name]; ok && before != service {
		t.DeleteSlice(name)
	}
	if service.Name == "" || !watched(slice.Labels, t.proxyName) {
		t.DeleteSlice(name)
		return
	}
	of := t.slices[service]
	if of == nil {
		of = map[string]*discoveryv1.EndpointSlice{}
		t.slices[service] = of
	}
	of[slice.Name] = slice
	t.serviceOf[name] = service
	t.dirty[service] = struct{}{}
}

// DeleteSlice removes an EndpointSlice; one that is not known is no error.
func (t *Tracker) DeleteSlice(name types.NamespacedName) {
	service, ok := t.serviceOf[name]
	if !ok {
		return
	}
	delete(t.serviceOf, name)
	delete(t.slices[service], name.Name)
	if len(t.slices[service]) == 0 {
		delete(t.slices, service)
	}
	t.dirty[service] = struct{}{}
}

// Take returns what changed since the last call.
func (t *Tracker) Take() Changes {
	var changes Changes
	for name := range t.dirty {
		before := t.compiled[name]
		now := t.compile(name)
		changes.UDP = changes.UDP || hasUDP(before) || hasUDP(now)
		known := map[model.PortKey]model.ServicePort{}
		for _, p := range before {
			known[p.Key] = p
		}
		for _, p := range now {
			if old, ok := known[p.Key]; !ok || !reflect.DeepEqual(old, p) {
				changes.Updated = append(changes.Updated, p)
			}
			delete(known, p.Key)
		}
		changes.Deleted = slices.AppendSeq(changes.Deleted, maps.Keys(known))
		t.store(name, now)
	}
	clear(t.dirty)
	sortPorts(changes.Updated)
	slices.SortFunc(changes.Deleted, compareKeys)
	return changes
}

func (t *Tracker) store(name types.NamespacedName, ports []model.ServicePort) {
	t.countNoLocal(t.compiled[name], -1)
	t.countNoLocal(ports, 1)
	delete(t.compiled, name)
	delete(t.health, name)
	if len(ports) == 0 {
		return
	}
	t.compiled[name] = ports
	if port := ports[0].HealthCheckNodePort; port != 0 {
		t.health[name] = HealthCheck{Port: port, LocalEndpoints: t.localReady(name, ports)}
	}
}

func (t *Tracker) countNoLocal(ports []model.ServicePort, n int) {
	for _, p := range ports {
		if !p.HasAnyEndpoint || len(p.LocalEndpoints) > 0 {
			continue
		}
		count := t.noLocal[p.Key.Family]
		if p.InternalLocal {
			count.Internal += n
		}
		if p.ExternalLocal {
			count.External += n
		}
		t.noLocal[p.Key.Family] = count
	}
}

// NoLocalEndpoints are the counts of a family, as its ports were taken last.
func (t *Tracker) NoLocalEndpoints(family v1.IPFamily) NoLocalEndpoints { return t.noLocal[family] }

// All returns every port as it was taken last, sorted.
func (t *Tracker) All() []model.ServicePort {
	var ports []model.ServicePort
	for _, of := range t.compiled {
		ports = append(ports, of...)
	}
	sortPorts(ports)
	return ports
}

func (t *Tracker) compile(name types.NamespacedName) []model.ServicePort {
	svc, ok := t.services[name]
	if !ok {
		return nil
	}
	return compileFor(svc, t.slicesOf(name), t.node, t.proxyName)
}

func (t *Tracker) slicesOf(name types.NamespacedName) []*discoveryv1.EndpointSlice {
	of := make([]*discoveryv1.EndpointSlice, 0, len(t.slices[name]))
	for _, key := range slices.Sorted(maps.Keys(t.slices[name])) {
		of = append(of, t.slices[name][key])
	}
	return of
}

func hasUDP(ports []model.ServicePort) bool {
	return slices.ContainsFunc(ports, func(p model.ServicePort) bool { return p.Key.Protocol == v1.ProtocolUDP })
}

// ServingIPs are the addresses of a port's endpoints, on any node, that serve; whether they terminate, and which of
// them traffic policies and hints choose, does not matter. Connections to them may go on.
func (t *Tracker) ServingIPs(key model.PortKey) []netip.Addr {
	if !slices.ContainsFunc(t.compiled[key.NamespacedName], func(p model.ServicePort) bool { return p.Key == key }) {
		return nil
	}
	all := candidates(t.slicesOf(key.NamespacedName), key.Port, key.Protocol, key.Family, t.node)
	return ips(filter(all, func(c candidate) bool { return c.serving }))
}

// HealthCheck is what the health check node port of a Service answers.
type HealthCheck struct {
	Port           uint16
	LocalEndpoints int // ready ones on this node
}

// HealthChecks are those of the Services with a health check node port, as they were taken last. An endpoint with
// several ports counts once, as does one of a Service of both IP families, where the family with more endpoints counts.
func (t *Tracker) HealthChecks() map[types.NamespacedName]HealthCheck {
	return maps.Clone(t.health)
}

func (t *Tracker) localReady(name types.NamespacedName, ports []model.ServicePort) int {
	of := t.slicesOf(name)
	ready := map[v1.IPFamily]map[netip.Addr]struct{}{v1.IPv4Protocol: {}, v1.IPv6Protocol: {}}
	for _, p := range ports {
		for _, c := range candidates(of, p.Key.Port, p.Key.Protocol, p.Key.Family, t.node) {
			if c.Local && c.ready {
				ready[p.Key.Family][c.IP] = struct{}{}
			}
		}
	}
	return max(len(ready[v1.IPv4Protocol]), len(ready[v1.IPv6Protocol]))
}

// ips are the addresses of sorted candidates, without duplicates.
func ips(of []candidate) []netip.Addr {
	var addrs []netip.Addr
	for _, c := range of {
		addrs = append(addrs, c.IP)
	}
	return slices.Compact(addrs)
}
