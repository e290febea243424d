package endpoints

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/controllers/pods"
	"quintet.dev/quintet/components/controllers/services"
)

const (
	// capacity is how many addresses an Endpoints object holds; EndpointSlices tell all.
	capacity = 1000

	managedByLabel = "endpoints.kubernetes.io/managed-by"
	managedBy      = "endpoint-controller"
)

// plan returns the Endpoints of the Service; nil if current is right.
func plan(service *v1.Service, selected []*v1.Pod, current *v1.Endpoints) *v1.Endpoints {
	subsets, truncated := subsetsOf(service, selected)
	next := &v1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: service.Name, Namespace: service.Namespace}}
	if current != nil {
		next = current.DeepCopy()
	}
	next.Labels = maps.Clone(service.Labels)
	if next.Labels == nil {
		next.Labels = map[string]string{}
	}
	delete(next.Labels, services.HeadlessLabel)
	if services.Headless(service) {
		next.Labels[services.HeadlessLabel] = ""
	}
	next.Labels[managedByLabel] = managedBy
	if next.Annotations == nil {
		next.Annotations = map[string]string{}
	}
	delete(next.Annotations, v1.EndpointsOverCapacity)
	if truncated {
		next.Annotations[v1.EndpointsOverCapacity] = "truncated"
	}
	next.Subsets = subsets
	if current != nil && equality.Semantic.DeepEqual(current.Labels, next.Labels) &&
		current.Annotations[v1.EndpointsOverCapacity] == next.Annotations[v1.EndpointsOverCapacity] &&
		equality.Semantic.DeepEqual(current.Subsets, next.Subsets) {
		return nil
	}
	if at := services.Trigger(next.Annotations[v1.EndpointsLastChangeTriggerTime], service, selected); at != "" {
		next.Annotations[v1.EndpointsLastChangeTriggerTime] = at
	}
	return next
}

// subsetsOf groups the pods by the ports they serve, in a canonical order.
func subsetsOf(service *v1.Service, selected []*v1.Pod) (subsets []v1.EndpointSubset, truncated bool) {
	groups := map[string]*v1.EndpointSubset{}
	family := services.Families(service)[0]
	for _, pod := range selected {
		ips := services.IPs(pod, family)
		leaving := pod.DeletionTimestamp != nil && !service.Spec.PublishNotReadyAddresses
		if len(ips) == 0 || pods.Ended(pod) || leaving {
			continue
		}
		ports, ok := portsOf(service, pod)
		if !ok {
			continue
		}
		address := v1.EndpointAddress{IP: ips[0], TargetRef: services.Target(pod),
			Hostname: services.Hostname(pod, service)}
		if pod.Spec.NodeName != "" {
			address.NodeName = ptr.To(pod.Spec.NodeName)
		}
		key := fmt.Sprint(ports)
		if groups[key] == nil {
			groups[key] = &v1.EndpointSubset{Ports: ports}
		}
		if group := groups[key]; service.Spec.PublishNotReadyAddresses || pods.Ready(pod) {
			group.Addresses = append(group.Addresses, address)
		} else {
			group.NotReadyAddresses = append(group.NotReadyAddresses, address)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		group := groups[key]
		slices.SortFunc(group.Addresses, byAddress)
		slices.SortFunc(group.NotReadyAddresses, byAddress)
		subsets = append(subsets, *group)
	}
	return truncate(subsets)
}

func byAddress(a, b v1.EndpointAddress) int {
	return cmp.Or(cmp.Compare(a.IP, b.IP), cmp.Compare(a.TargetRef.UID, b.TargetRef.UID))
}

// portsOf returns where the pod serves the Service; ok is false if it serves none of its ports.
func portsOf(service *v1.Service, pod *v1.Pod) (ports []v1.EndpointPort, ok bool) {
	if len(service.Spec.Ports) == 0 {
		return nil, services.Headless(service)
	}
	for i := range service.Spec.Ports {
		port := &service.Spec.Ports[i]
		if number, found := services.Port(pod, port); found {
			ports = append(ports, v1.EndpointPort{Name: port.Name, Port: number, Protocol: port.Protocol,
				AppProtocol: port.AppProtocol})
		}
	}
	slices.SortFunc(ports, func(a, b v1.EndpointPort) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Port, b.Port))
	})
	return ports, len(ports) > 0
}

// truncate keeps ready addresses before others.
func truncate(subsets []v1.EndpointSubset) ([]v1.EndpointSubset, bool) {
	room := capacity
	truncated := false
	cut := func(addresses *[]v1.EndpointAddress) {
		if len(*addresses) > room {
			*addresses = (*addresses)[:room]
			truncated = true
		}
		room -= len(*addresses)
	}
	for i := range subsets {
		cut(&subsets[i].Addresses)
	}
	for i := range subsets {
		cut(&subsets[i].NotReadyAddresses)
	}
	subsets = slices.DeleteFunc(subsets,
		func(s v1.EndpointSubset) bool { return len(s.Addresses)+len(s.NotReadyAddresses) == 0 })
	return subsets, truncated
}
