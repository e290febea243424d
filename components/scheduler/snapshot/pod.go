package snapshot

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	corev1 "k8s.io/component-helpers/scheduling/corev1"
)

var nonMissing = v1.ResourceList{
	v1.ResourceCPU:    *resource.NewMilliQuantity(defaultMilliCPU, resource.DecimalSI),
	v1.ResourceMemory: *resource.NewQuantity(defaultMemory, resource.BinarySI),
}

// Port is a port of the host that a pod takes.
type Port struct {
	IP       string // "0.0.0.0" is every address
	Protocol v1.Protocol
	Port     int32
}

// Overlaps tells whether two pods can't have these ports on one node.
func (p Port) Overlaps(other Port) bool {
	return p.Port == other.Port && p.Protocol == other.Protocol &&
		(p.IP == other.IP || p.IP == anyAddress || other.IP == anyAddress)
}

const anyAddress = "0.0.0.0"

// Pod is a pod with what scheduling derives from it, computed once. It is immutable.
type Pod struct {
	Obj      *v1.Pod
	Priority int32
	// Requests is what must fit; Scored has defaults for containers that ask for nothing, and no Scalar.
	Requests, Scored Resources
	Ports            []Port
	Affinity         Affinity
	Claims           []Claim
	// Invalid is the error in the pod's affinity terms; such a pod fits no node.
	Invalid error
}

// NewPod derives a Pod; it keeps obj, which must not change afterwards.
func NewPod(obj *v1.Pod) *Pod {
	p := &Pod{Obj: obj, Priority: corev1.PodPriority(obj)}
	p.Requests, p.Scored = requests(obj)
	p.Ports = hostPorts(obj)
	p.Claims = claimsOf(obj)
	p.Affinity, p.Invalid = parseAffinity(obj)
	return p
}

// UID identifies the pod.
func (p *Pod) UID() types.UID { return p.Obj.UID }

// Terminating tells whether the pod is being deleted.
func (p *Pod) Terminating() bool { return p.Obj.DeletionTimestamp != nil }

// hostPorts includes those of sidecars, which run with the containers.
func hostPorts(pod *v1.Pod) []Port {
	var ports []Port
	add := func(c *v1.Container) {
		for _, port := range c.Ports {
			if port.HostPort <= 0 {
				continue
			}
			p := Port{IP: port.HostIP, Protocol: port.Protocol, Port: port.HostPort}
			if p.IP == "" {
				p.IP = anyAddress
			}
			if p.Protocol == "" {
				p.Protocol = v1.ProtocolTCP
			}
			ports = append(ports, p)
		}
	}
	for i := range pod.Spec.InitContainers {
		if always := pod.Spec.InitContainers[i].RestartPolicy; always != nil &&
			*always == v1.ContainerRestartPolicyAlways {
			add(&pod.Spec.InitContainers[i])
		}
	}
	for i := range pod.Spec.Containers {
		add(&pod.Spec.Containers[i])
	}
	return ports
}

// classKey is equal for pods that are alike to other pods' selectors and affinity terms.
func (p *Pod) classKey() string {
	var b strings.Builder
	b.WriteString(p.Obj.Namespace)
	if p.Terminating() {
		b.WriteString("\x00-")
	}
	keys := make([]string, 0, len(p.Obj.Labels))
	for key := range p.Obj.Labels {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		b.WriteString("\x00")
		b.WriteString(key)
		b.WriteString("\x01")
		b.WriteString(p.Obj.Labels[key])
	}
	if !p.Affinity.Empty() {
		b.WriteString("\x02")
		affinity := v1.Affinity{PodAffinity: p.Obj.Spec.Affinity.PodAffinity,
			PodAntiAffinity: p.Obj.Spec.Affinity.PodAntiAffinity}
		b.WriteString(affinity.String())
	}
	return b.String()
}
