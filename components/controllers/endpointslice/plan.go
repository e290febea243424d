package endpointslice

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/controllers/pods"
	"quintet.dev/quintet/components/controllers/services"
)

// observed is all that a decision depends on.
type observed struct {
	service *v1.Service
	pods    []*v1.Pod
	nodes   map[string]*v1.Node
	slices  []*discovery.EndpointSlice // of this controller, for the Service
	limit   int                        // endpoints in one slice
}

// plan is what to write.
type plan struct {
	create, update, delete []*discovery.EndpointSlice
}

// family is how a Service is reached over one kind of addresses at one set of ports: slices can't mix them.
type family struct {
	addresses discovery.AddressType
	ports     string
}

func decide(o observed) plan {
	wanted, ports := endpointsOf(o)
	current := map[family][]*discovery.EndpointSlice{}
	var p plan
	for _, slice := range o.slices {
		if slice.DeletionTimestamp != nil {
			continue
		}
		f := family{slice.AddressType, portKey(slice.Ports)}
		if _, known := wanted[f]; !known && !served(o.service, slice.AddressType) {
			p.delete = append(p.delete, slice)
			continue
		}
		current[f] = append(current[f], slice)
	}
	for _, addresses := range addressTypes(o.service) {
		o.pack(&p, addresses, wanted, ports, current)
	}
	return p
}

// pack plans the slices of one address type. A Service without endpoints keeps one empty slice, which tells that it
// has none.
func (o observed) pack(p *plan, addresses discovery.AddressType, wanted map[family][]discovery.Endpoint,
	ports map[family][]discovery.EndpointPort, current map[family][]*discovery.EndpointSlice) {
	var spare, kept []*discovery.EndpointSlice
	created := 0
	for _, f := range slices.SortedFunc(maps.Keys(wanted), byPorts) {
		if f.addresses != addresses {
			continue
		}
		create, update, unchanged, empty := o.fill(f, wanted[f], ports[f], current[f])
		delete(current, f)
		p.create = append(p.create, create...)
		p.update = append(p.update, update...)
		created += len(create) + len(update)
		kept = append(kept, unchanged...)
		spare = append(spare, empty...)
	}
	for f, slices := range current {
		if f.addresses == addresses {
			spare = append(spare, slices...)
		}
	}
	slices.SortFunc(spare, byName)
	spare = o.recycle(p, spare)
	if created+len(kept) == 0 {
		placeholder := o.newSlice(addresses, nil)
		if len(spare) == 0 {
			p.create = append(p.create, placeholder)
			return
		}
		if changed := o.refresh(spare[0], nil, nil); changed != nil {
			p.update = append(p.update, changed)
		}
		spare = spare[1:]
	}
	p.delete = append(p.delete, spare...)
}

// recycle fills surplus slices instead of creating new ones, and returns those left over: watchers then see one update
// instead of a deletion and a creation.
func (o observed) recycle(p *plan, spare []*discovery.EndpointSlice) []*discovery.EndpointSlice {
	var create []*discovery.EndpointSlice
	for _, wanted := range p.create {
		at := slices.IndexFunc(spare,
			func(s *discovery.EndpointSlice) bool { return s.AddressType == wanted.AddressType })
		if at < 0 {
			create = append(create, wanted)
			continue
		}
		p.update = append(p.update, o.mustRefresh(spare[at], wanted.Endpoints, wanted.Ports))
		spare = slices.Delete(spare, at, at+1)
	}
	p.create = create
	return spare
}

func byPorts(a, b family) int {
	return cmp.Or(cmp.Compare(a.addresses, b.addresses), cmp.Compare(a.ports, b.ports))
}

func byName(a, b *discovery.EndpointSlice) int { return cmp.Compare(a.Name, b.Name) }

// fill spreads endpoints over existing slices so that as few of those as possible change.
func (o observed) fill(f family, wanted []discovery.Endpoint, ports []discovery.EndpointPort,
	current []*discovery.EndpointSlice) (create, update, unchanged, empty []*discovery.EndpointSlice) {
	slices.SortFunc(current, byName)
	content, changed, fresh := o.keep(wanted, current)
	take := func(i int) {
		room := min(max(o.limit-len(content[i]), 0), len(fresh))
		content[i] = append(content[i], fresh[:room]...)
		fresh = fresh[room:]
		changed[i] = changed[i] || room > 0
	}
	for i := range current { // first into slices that are updated anyway
		if changed[i] && len(content[i]) > 0 {
			take(i)
		}
	}
	if len(fresh) > 0 && len(fresh) < o.limit { // then into the fullest that takes all the rest
		if i := fullest(content, o.limit-len(fresh)); i >= 0 {
			take(i)
		}
	}
	for i, slice := range current {
		if len(content[i]) == 0 && len(fresh) > 0 {
			take(i)
		}
		switch next := o.refresh(slice, content[i], ports); {
		case len(content[i]) == 0:
			empty = append(empty, slice)
		case changed[i] || next != nil:
			update = append(update, o.mustRefresh(slice, content[i], ports))
		default:
			unchanged = append(unchanged, slice)
		}
	}
	for len(fresh) > 0 {
		room := min(o.limit, len(fresh))
		slice := o.newSlice(f.addresses, ports)
		slice.Endpoints = fresh[:room]
		fresh = fresh[room:]
		create = append(create, slice)
	}
	return create, update, unchanged, empty
}

// keep finds what each slice keeps of its endpoints, in their new state, whether that changes it, and which endpoints
// are in none.
func (o observed) keep(wanted []discovery.Endpoint,
	current []*discovery.EndpointSlice) (content [][]discovery.Endpoint, changed []bool, fresh []discovery.Endpoint) {
	missing := map[string]discovery.Endpoint{}
	for _, endpoint := range wanted {
		missing[identity(endpoint)] = endpoint
	}
	content = make([][]discovery.Endpoint, len(current))
	changed = make([]bool, len(current))
	for i, slice := range current {
		for _, endpoint := range slice.Endpoints {
			id := identity(endpoint)
			next, still := missing[id]
			if !still {
				changed[i] = true
				continue
			}
			delete(missing, id)
			if asksForHints(o.service) && ptr.Deref(next.Conditions.Ready, false) {
				next.Hints = endpoint.Hints // they are decided on for all endpoints together: topology
			}
			content[i] = append(content[i], next)
			changed[i] = changed[i] || !equality.Semantic.DeepEqual(endpoint, next)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(missing)) {
		fresh = append(fresh, missing[id])
	}
	return content, changed, fresh
}

// fullest returns the slice with the most endpoints, of those with at most limit and at least one; -1 if there is none.
func fullest(content [][]discovery.Endpoint, limit int) int {
	best := -1
	for i := range content {
		if n := len(content[i]); n > 0 && n <= limit && (best < 0 || n > len(content[best])) {
			best = i
		}
	}
	return best
}

// refresh returns slice with new content; nil if it has it.
func (o observed) refresh(slice *discovery.EndpointSlice, endpoints []discovery.Endpoint,
	ports []discovery.EndpointPort) *discovery.EndpointSlice {
	next := o.mustRefresh(slice, endpoints, ports)
	if equality.Semantic.DeepEqual(slice.Labels, next.Labels) &&
		equality.Semantic.DeepEqual(slice.Endpoints, next.Endpoints) && portKey(slice.Ports) == portKey(ports) {
		return nil
	}
	return next
}

func (o observed) mustRefresh(slice *discovery.EndpointSlice, endpoints []discovery.Endpoint,
	ports []discovery.EndpointPort) *discovery.EndpointSlice {
	next := slice.DeepCopy()
	next.Labels = sliceLabels(o.service)
	next.Endpoints = endpoints
	next.Ports = ports
	o.stamp(next)
	return next
}

func (o observed) newSlice(addresses discovery.AddressType, ports []discovery.EndpointPort) *discovery.EndpointSlice {
	slice := &discovery.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName:    o.service.Name + "-",
			Namespace:       o.service.Namespace,
			Labels:          sliceLabels(o.service),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(o.service, kind)},
		},
		AddressType: addresses,
		Ports:       ports,
		Endpoints:   []discovery.Endpoint{},
	}
	o.stamp(slice)
	return slice
}

func (o observed) stamp(slice *discovery.EndpointSlice) {
	if at := services.Trigger(slice.Annotations[v1.EndpointsLastChangeTriggerTime], o.service, o.pods); at != "" {
		slice.Annotations = maps.Clone(slice.Annotations)
		if slice.Annotations == nil {
			slice.Annotations = map[string]string{}
		}
		slice.Annotations[v1.EndpointsLastChangeTriggerTime] = at
	}
}

// sliceLabels are the Service's own and those by which slices are found.
func sliceLabels(service *v1.Service) map[string]string {
	labels := maps.Clone(service.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	delete(labels, services.HeadlessLabel)
	if services.Headless(service) {
		labels[services.HeadlessLabel] = ""
	}
	labels[discovery.LabelServiceName] = service.Name
	labels[discovery.LabelManagedBy] = managedBy
	return labels
}

func addressTypes(service *v1.Service) []discovery.AddressType {
	var types []discovery.AddressType
	for _, f := range services.Families(service) {
		types = append(types, discovery.AddressType(f))
	}
	return types
}

func served(service *v1.Service, t discovery.AddressType) bool {
	return slices.Contains(addressTypes(service), t)
}

// withNode parts the pods whose node exists from those that would be endpoints but for that. A Service that publishes
// addresses that are not ready publishes them all.
func withNode(o observed) (kept, homeless []*v1.Pod) {
	if o.service.Spec.PublishNotReadyAddresses {
		return o.pods, nil
	}
	for _, pod := range o.pods {
		switch {
		case o.nodes[pod.Spec.NodeName] != nil:
			kept = append(kept, pod)
		case !pods.Ended(pod) && len(pod.Status.PodIPs) > 0:
			homeless = append(homeless, pod)
		}
	}
	return kept, homeless
}

// endpointsOf makes the endpoints of all selected pods.
func endpointsOf(o observed) (map[family][]discovery.Endpoint, map[family][]discovery.EndpointPort) {
	wanted := map[family][]discovery.Endpoint{}
	ports := map[family][]discovery.EndpointPort{}
	for _, pod := range o.pods {
		if pods.Ended(pod) {
			continue
		}
		podPorts := portsOf(o.service, pod)
		for _, ipFamily := range services.Families(o.service) {
			ips := services.IPs(pod, ipFamily)
			if len(ips) == 0 {
				continue
			}
			f := family{discovery.AddressType(ipFamily), portKey(podPorts)}
			wanted[f] = append(wanted[f], o.endpoint(pod, ips))
			ports[f] = podPorts
		}
	}
	return wanted, ports
}

func (o observed) endpoint(pod *v1.Pod, ips []string) discovery.Endpoint {
	serving, terminating := pods.Ready(pod), pod.DeletionTimestamp != nil
	endpoint := discovery.Endpoint{
		Addresses: ips,
		Conditions: discovery.EndpointConditions{
			Ready:       ptr.To(o.service.Spec.PublishNotReadyAddresses || (serving && !terminating)),
			Serving:     ptr.To(serving),
			Terminating: ptr.To(terminating),
		},
		TargetRef: services.Target(pod),
	}
	if pod.Spec.NodeName != "" {
		endpoint.NodeName = ptr.To(pod.Spec.NodeName)
	}
	if node := o.nodes[pod.Spec.NodeName]; node != nil && node.Labels[v1.LabelTopologyZone] != "" {
		endpoint.Zone = ptr.To(node.Labels[v1.LabelTopologyZone])
	}
	if hostname := services.Hostname(pod, o.service); hostname != "" {
		endpoint.Hostname = &hostname
	}
	endpoint.Hints = hints(o.service, &endpoint)
	return endpoint
}

// hints returns the zones and nodes whose clients the endpoint should serve
// (https://kubernetes.io/docs/reference/networking/virtual-ips/#traffic-distribution). A Service that asks for hints by
// zones gets those instead.
func hints(service *v1.Service, endpoint *discovery.Endpoint) *discovery.EndpointHints {
	if asksForHints(service) {
		return nil
	}
	preference := ptr.Deref(service.Spec.TrafficDistribution, "")
	ready := ptr.Deref(endpoint.Conditions.Ready, false)
	var h discovery.EndpointHints
	switch preference {
	case v1.ServiceTrafficDistributionPreferClose, v1.ServiceTrafficDistributionPreferSameZone,
		v1.ServiceTrafficDistributionPreferSameNode:
		if ready && endpoint.Zone != nil {
			h.ForZones = []discovery.ForZone{{Name: *endpoint.Zone}}
		}
		if ready && preference == v1.ServiceTrafficDistributionPreferSameNode && endpoint.NodeName != nil {
			h.ForNodes = []discovery.ForNode{{Name: *endpoint.NodeName}}
		}
	}
	if h.ForZones == nil && h.ForNodes == nil {
		return nil
	}
	return &h
}

func portsOf(service *v1.Service, pod *v1.Pod) []discovery.EndpointPort {
	ports := []discovery.EndpointPort{}
	for i := range service.Spec.Ports {
		port := &service.Spec.Ports[i]
		if number, ok := services.Port(pod, port); ok {
			ports = append(ports, discovery.EndpointPort{
				Name: ptr.To(port.Name), Port: ptr.To(number), Protocol: ptr.To(port.Protocol),
				AppProtocol: port.AppProtocol,
			})
		}
	}
	return ports
}

// portKey is equal for equal ports in any order.
func portKey(ports []discovery.EndpointPort) string {
	keys := make([]string, 0, len(ports))
	for _, port := range ports {
		key, err := json.Marshal(port)
		if err != nil {
			panic(err) // plain values always marshal
		}
		keys = append(keys, string(key))
	}
	slices.Sort(keys)
	joined, err := json.Marshal(keys)
	if err != nil {
		panic(err)
	}
	return string(joined)
}

// identity is equal for the states of one pod's endpoint.
func identity(endpoint discovery.Endpoint) string {
	key := endpoint.Addresses[0]
	if endpoint.TargetRef != nil {
		key += "/" + string(endpoint.TargetRef.UID)
	}
	return key
}
