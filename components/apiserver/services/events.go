package services

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
)

// Events are where repairs report their findings; nil reports nothing. Reasons and texts are upstream's.
type Events struct{ Addresses, Ports events.EventRecorder }

// The actions that events speak of.
const (
	givingIP   = "ClusterIPAllocation"
	checkingIP = "ClusterIPValidation"
	keepingIP  = "IPAddressAllocation"
	givingPort = "PortAllocation"
)

func warn(to events.EventRecorder, about runtime.Object, reason, action, text string, args ...any) {
	if to != nil {
		to.Eventf(about, nil, corev1.EventTypeWarning, reason, action, text, args...)
	}
}

// missing is an address of a service that was not written down.
func (e Events) missing(ip netip.Addr, s *corev1.Service) {
	warn(e.Addresses, s, "ClusterIPNotAllocated", givingIP, "Cluster IP [%v]: %s is not allocated; repairing",
		familyOf(ip), ip)
}

// invalid is a service whose address is none. The text has no place for it: upstream's has nothing there.
func (e Events) invalid(s *corev1.Service) {
	warn(e.Addresses, s, "ClusterIPNotValid", checkingIP, "Cluster IP <nil> is not a valid IP; please recreate Service")
}

// foreign is the address of a service that was written down as of something else.
func (e Events) foreign(ip netip.Addr, s *corev1.Service) {
	warn(e.Addresses, s, "ClusterIPNotAllocated", givingIP,
		"the ClusterIP [%v]: %s for Service %s/%s has a wrong reference; repairing", familyOf(ip), ip, s.Namespace,
		s.Name)
}

// outside is an address that is in no range.
func (e Events) outside(ip netip.Addr, s *corev1.Service) {
	warn(e.Addresses, s, "ClusterIPOutOfRange", givingIP,
		"Cluster IP [%v]: %s is not within any configured Service CIDR; please recreate service", familyOf(ip), ip)
}

// shared is a service with an address that is another one's.
func (e Events) shared(ip netip.Addr, s *corev1.Service) {
	warn(e.Addresses, s, "ClusterIPAlreadyAllocated", givingIP,
		"Cluster IP [%v]:%s was assigned to multiple services; please recreate service", familyOf(ip), ip)
}

// modified is an address that is no service's, which is free now.
func (e Events) modified(address *networkingv1.IPAddress) {
	warn(e.Addresses, address, "IPAddressNotAllocated", keepingIP,
		"IPAddress %s appears to have been modified, not referencing a Service %v: cleaning up", address.Name,
		address.Spec.ParentRef)
}

// leaked is an address that its service, if that exists, doesn't use, which is free now.
func (e Events) leaked(address *networkingv1.IPAddress, exists bool) {
	owner := address.Spec.ParentRef
	if exists {
		warn(e.Addresses, address, "IPAddressWrongReference", keepingIP,
			"IPAddress: %s for Service %s/%s has a wrong reference; cleaning up", address.Name, owner.Namespace,
			owner.Name)
		return
	}
	warn(e.Addresses, address, "IPAddressNotAllocated", keepingIP,
		"IPAddress: %s for Service %s/%s appears to have leaked: cleaning up", address.Name, owner.Namespace,
		owner.Name)
}

// missingPort is a port of a service that was not written down.
func (e Events) missingPort(port int, s *corev1.Service) {
	warn(e.Ports, s, "PortNotAllocated", givingPort, "Port %d is not allocated; repairing", port)
}

// sharedPort tells all users of a port but the first.
func (e Events) sharedPort(port int, users []*corev1.Service) {
	for _, s := range users[1:] {
		warn(e.Ports, s, "PortAlreadyAllocated", givingPort,
			"Port %d was assigned to multiple services; please recreate service", port)
	}
}

// outsidePort is a port that isn't in the range.
func (e Events) outsidePort(port, first, last int, users []*corev1.Service) {
	for _, s := range users {
		warn(e.Ports, s, "PortOutOfRange", givingPort,
			"Port %d is not within the port range %d-%d; please recreate service", port, first, last)
	}
}
