package compile

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// Pod is what policies read of a pod. It is immutable.
type Pod struct {
	types.NamespacedName
	UID     types.UID
	Labels  labels.Set
	Addrs   []netip.Addr
	Ports   []Port
	Local   bool // on this node
	Leaving bool // deleted, and terminates
	Created time.Time
}

// Port is a named port of a pod's containers.
type Port struct {
	Name     string
	Protocol v1.Protocol
	Port     uint16
}

// PodOf reads a pod, for the node called node. It returns false for pods that policies neither select nor name: those
// in the network of their node, those that ended, and those that have neither a node nor an address.
func PodOf(pod *v1.Pod, node string) (Pod, bool) {
	ended := pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
	if pod.Spec.HostNetwork || ended {
		return Pod{}, false
	}
	out := Pod{
		NamespacedName: types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, UID: pod.UID,
		Labels: pod.Labels,
		Local:  node != "" && pod.Spec.NodeName == node, Leaving: pod.DeletionTimestamp != nil,
		Created: pod.CreationTimestamp.Time,
	}
	out.addAddress(pod.Status.PodIP)
	for _, ip := range pod.Status.PodIPs {
		out.addAddress(ip.IP)
	}
	if len(out.Addrs) == 0 && !out.Local {
		return Pod{}, false
	}
	for _, container := range pod.Spec.Containers {
		out.addPorts(container.Ports)
	}
	for _, container := range pod.Spec.InitContainers {
		if policy := container.RestartPolicy; policy != nil && *policy == v1.ContainerRestartPolicyAlways {
			out.addPorts(container.Ports)
		}
	}
	return out, true
}

func (p *Pod) addAddress(text string) {
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return // a pod that has no address yet
	}
	if addr = addr.Unmap().WithZone(""); !slices.Contains(p.Addrs, addr) {
		p.Addrs = append(p.Addrs, addr)
	}
}

// addPorts takes the first port of each name and protocol, as Services do.
func (p *Pod) addPorts(ports []v1.ContainerPort) {
	for _, port := range ports {
		if port.Name == "" || port.ContainerPort < 1 || port.ContainerPort > 65535 {
			continue
		}
		protocol := protocolOrTCP(port.Protocol)
		if _, taken := p.port(port.Name, protocol); !taken {
			p.Ports = append(p.Ports, Port{port.Name, protocol, uint16(port.ContainerPort)})
		}
	}
}

func (p *Pod) port(name string, protocol v1.Protocol) (uint16, bool) {
	for _, port := range p.Ports {
		if port.Name == name && port.Protocol == protocol {
			return port.Port, true
		}
	}
	return 0, false
}

func (p *Pod) equal(other *Pod) bool {
	return p.NamespacedName == other.NamespacedName && p.UID == other.UID && p.Local == other.Local &&
		p.Leaving == other.Leaving && p.Created.Equal(other.Created) && labels.Equals(p.Labels, other.Labels) &&
		slices.Equal(p.Addrs, other.Addrs) && slices.Equal(p.Ports, other.Ports)
}

// compare orders pods that have the same address; the address belongs to the first. Pods share one for the moment in
// which one ends and the next starts, and where a range of pods moves from a lost node to another.
func (p *Pod) compare(other *Pod) int {
	return cmp.Or(
		trueFirst(p.Local, other.Local), trueFirst(other.Leaving, p.Leaving), other.Created.Compare(p.Created),
		cmp.Compare(p.UID, other.UID), cmp.Compare(p.String(), other.String()),
	)
}

func trueFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

func protocolOrTCP(protocol v1.Protocol) v1.Protocol {
	if protocol == "" {
		return v1.ProtocolTCP
	}
	return protocol
}
