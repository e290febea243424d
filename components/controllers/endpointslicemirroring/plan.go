package endpointslicemirroring

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	v1 "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"
)

const managedBy = "endpointslicemirroring-controller.k8s.io"

var kind = v1.SchemeGroupVersion.WithKind("Endpoints")

// mirrored tells whether the Endpoints are mirrored to slices: those of a Service without a selector.
func mirrored(endpoints *v1.Endpoints, service *v1.Service) bool {
	if endpoints == nil || service == nil || service.Spec.Selector != nil || endpoints.DeletionTimestamp != nil {
		return false
	}
	_, election := endpoints.Annotations[resourcelock.LeaderElectionRecordAnnotationKey]
	return !election && endpoints.Labels[discovery.LabelSkipMirror] != "true"
}

// plan is what to write.
type plan struct {
	create, update, delete []*discovery.EndpointSlice
	invalid, dropped       int // addresses that are none, or more than a subset may have
}

// decide plans the slices of mirrored endpoints, and the deletion of all if endpoints is nil.
func decide(endpoints *v1.Endpoints, current []*discovery.EndpointSlice, limit int) plan {
	var p plan
	var wanted []*discovery.EndpointSlice
	if endpoints != nil {
		wanted = p.slicesOf(endpoints, limit)
	}
	spare := slices.SortedFunc(slices.Values(current),
		func(a, b *discovery.EndpointSlice) int { return cmp.Compare(a.Name, b.Name) })
	take := func(fits func(*discovery.EndpointSlice) bool) *discovery.EndpointSlice {
		at := slices.IndexFunc(spare, fits)
		if at < 0 {
			return nil
		}
		found := spare[at]
		spare = slices.Delete(spare, at, at+1)
		return found
	}
	var missing []*discovery.EndpointSlice
	for _, next := range wanted {
		same := take(func(s *discovery.EndpointSlice) bool {
			return s.AddressType == next.AddressType && equality.Semantic.DeepEqual(s.Ports, next.Ports)
		})
		if same == nil {
			missing = append(missing, next)
		} else if changed := refreshed(same, next); changed != nil {
			p.update = append(p.update, changed)
		}
	}
	for _, next := range missing { // readers see one change instead of two
		if other := take(func(s *discovery.EndpointSlice) bool { return s.AddressType == next.AddressType }); other != nil {
			p.update = append(p.update, refreshed(other, next))
		} else {
			p.create = append(p.create, next)
		}
	}
	p.delete = spare
	return p
}

// refreshed returns slice as next; nil if it is.
func refreshed(slice, next *discovery.EndpointSlice) *discovery.EndpointSlice {
	changed := slice.DeepCopy()
	changed.Labels, changed.Annotations, changed.OwnerReferences = next.Labels, next.Annotations, next.OwnerReferences
	changed.Endpoints, changed.Ports = next.Endpoints, next.Ports
	if equality.Semantic.DeepEqual(slice, changed) {
		return nil
	}
	return changed
}

// slicesOf makes a slice of each subset and family of addresses.
func (p *plan) slicesOf(endpoints *v1.Endpoints, limit int) []*discovery.EndpointSlice {
	var all []*discovery.EndpointSlice
	for i := range endpoints.Subsets {
		subset := &endpoints.Subsets[i]
		found := map[discovery.AddressType][]discovery.Endpoint{}
		count := 0
		add := func(addresses []v1.EndpointAddress, ready bool) {
			for j := range addresses {
				if count >= limit {
					p.dropped++
					continue
				}
				family, ok := familyOf(addresses[j].IP)
				if !ok {
					p.invalid++
					continue
				}
				count++
				found[family] = append(found[family], endpoint(&addresses[j], ready))
			}
		}
		add(subset.Addresses, true)
		add(subset.NotReadyAddresses, false)
		for _, family := range slices.Sorted(maps.Keys(found)) {
			slice := newSlice(endpoints, family)
			slice.Endpoints, slice.Ports = found[family], portsOf(subset)
			all = append(all, slice)
		}
	}
	return all
}

func familyOf(ip string) (discovery.AddressType, bool) {
	address, err := netip.ParseAddr(ip)
	switch {
	case err != nil:
		return "", false
	case address.Is4():
		return discovery.AddressTypeIPv4, true
	}
	return discovery.AddressTypeIPv6, true
}

func endpoint(address *v1.EndpointAddress, ready bool) discovery.Endpoint {
	e := discovery.Endpoint{
		Addresses:  []string{address.IP},
		Conditions: discovery.EndpointConditions{Ready: ptr.To(ready)},
		TargetRef:  address.TargetRef,
		NodeName:   address.NodeName,
	}
	if address.Hostname != "" {
		e.Hostname = ptr.To(address.Hostname)
	}
	return e
}

func portsOf(subset *v1.EndpointSubset) []discovery.EndpointPort {
	ports := []discovery.EndpointPort{}
	for i := range subset.Ports {
		port := &subset.Ports[i]
		ports = append(ports, discovery.EndpointPort{
			Name: ptr.To(port.Name), Port: ptr.To(port.Port), Protocol: ptr.To(port.Protocol),
			AppProtocol: port.AppProtocol,
		})
	}
	slices.SortFunc(ports, func(a, b discovery.EndpointPort) int {
		return cmp.Compare(fmt.Sprint(*a.Name, *a.Protocol, *a.Port), fmt.Sprint(*b.Name, *b.Protocol, *b.Port))
	})
	return ports
}

func newSlice(endpoints *v1.Endpoints, family discovery.AddressType) *discovery.EndpointSlice {
	labels := maps.Clone(endpoints.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[discovery.LabelServiceName] = endpoints.Name
	labels[discovery.LabelManagedBy] = managedBy
	annotations := maps.Clone(endpoints.Annotations)
	delete(annotations, v1.LastAppliedConfigAnnotation)
	return &discovery.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: endpoints.Name + "-", Namespace: endpoints.Namespace, Labels: labels,
			Annotations:     annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(endpoints, kind)},
		},
		AddressType: family,
	}
}
