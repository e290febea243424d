// Package policytest is a reference implementation of the NetworkPolicy documentation, for tests
// that compare. It is slow and straightforward, and shares no code with what it is compared with.
package policytest

import (
	"net/netip"
	"slices"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Cluster is a state of the API.
type Cluster struct {
	Namespaces map[string]map[string]string // labels by name
	Pods       []*v1.Pod
	Policies   []*networkingv1.NetworkPolicy
}

// Connection is a new connection of a client.
type Connection struct {
	From, To netip.Addr
	Protocol v1.Protocol
	Port     int32
}

// Allowed tells whether the node called node lets a connection pass. Nodes enforce egress of their own pods and ingress
// to them.
func (c *Cluster) Allowed(node string, of Connection) bool {
	from, to := c.podAt(of.From), c.podAt(of.To)
	if from != nil && from == to {
		return true
	}
	if from != nil && from.Spec.NodeName == node && !c.allowedBy(from, networkingv1.PolicyTypeEgress, of) {
		return false
	}
	return to == nil || to.Spec.NodeName != node || c.allowedBy(to, networkingv1.PolicyTypeIngress, of)
}

// podAt returns the pod of an address, nil where there is none or it is in its node's network.
func (c *Cluster) podAt(addr netip.Addr) *v1.Pod {
	for _, pod := range c.Pods {
		if pod.Spec.HostNetwork || pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed {
			continue
		}
		for _, ip := range pod.Status.PodIPs {
			if ip.IP == addr.String() {
				return pod
			}
		}
	}
	return nil
}

// allowedBy evaluates the policies that select the pod; without any, all is allowed.
func (c *Cluster) allowedBy(pod *v1.Pod, direction networkingv1.PolicyType, of Connection) bool {
	isolated := false
	for _, policy := range c.Policies {
		in := policy.Namespace == pod.Namespace && applies(policy, direction)
		if !in || !selects(&policy.Spec.PodSelector, pod.Labels) {
			continue
		}
		isolated = true
		if direction == networkingv1.PolicyTypeIngress {
			for _, rule := range policy.Spec.Ingress {
				if c.anyPeer(policy.Namespace, rule.From, of.From) && c.anyPort(rule.Ports, of) {
					return true
				}
			}
			continue
		}
		for _, rule := range policy.Spec.Egress {
			if c.anyPeer(policy.Namespace, rule.To, of.To) && c.anyPort(rule.Ports, of) {
				return true
			}
		}
	}
	return !isolated
}

func applies(policy *networkingv1.NetworkPolicy, direction networkingv1.PolicyType) bool {
	if len(policy.Spec.PolicyTypes) == 0 {
		return direction == networkingv1.PolicyTypeIngress || len(policy.Spec.Egress) > 0
	}
	return slices.Contains(policy.Spec.PolicyTypes, direction)
}

func (c *Cluster) anyPeer(namespace string, peers []networkingv1.NetworkPolicyPeer, addr netip.Addr) bool {
	for _, peer := range peers {
		if c.isPeer(namespace, peer, addr) {
			return true
		}
	}
	return len(peers) == 0
}

func (c *Cluster) isPeer(namespace string, peer networkingv1.NetworkPolicyPeer, addr netip.Addr) bool {
	if peer.IPBlock != nil {
		contains := func(cidr string) bool { return netip.MustParsePrefix(cidr).Contains(addr) }
		return contains(peer.IPBlock.CIDR) && !slices.ContainsFunc(peer.IPBlock.Except, contains)
	}
	pod := c.podAt(addr)
	if pod == nil {
		return false
	}
	if peer.NamespaceSelector == nil {
		if pod.Namespace != namespace {
			return false
		}
	} else if of, known := c.Namespaces[pod.Namespace]; !known || !selects(peer.NamespaceSelector, of) {
		return false
	}
	return peer.PodSelector == nil || selects(peer.PodSelector, pod.Labels)
}

func (c *Cluster) anyPort(ports []networkingv1.NetworkPolicyPort, of Connection) bool {
	for _, port := range ports {
		protocol := v1.ProtocolTCP
		if port.Protocol != nil {
			protocol = *port.Protocol
		}
		if protocol == of.Protocol && c.isPort(port, of) {
			return true
		}
	}
	return len(ports) == 0
}

// isPort compares numbers; the number of a named port is that of the destination.
func (c *Cluster) isPort(port networkingv1.NetworkPolicyPort, of Connection) bool {
	switch {
	case port.Port == nil:
		return true
	case port.Port.Type == intstr.Int && port.EndPort != nil:
		return port.Port.IntVal <= of.Port && of.Port <= *port.EndPort
	case port.Port.Type == intstr.Int:
		return port.Port.IntVal == of.Port
	}
	pod := c.podAt(of.To)
	if pod == nil {
		return false
	}
	for _, container := range pod.Spec.Containers {
		for _, named := range container.Ports {
			if named.Name == port.Port.StrVal && named.Protocol == of.Protocol {
				return named.ContainerPort == of.Port
			}
		}
	}
	return false
}

func selects(selector *metav1.LabelSelector, labels map[string]string) bool {
	for key, value := range selector.MatchLabels {
		if has, ok := labels[key]; !ok || has != value {
			return false
		}
	}
	for _, of := range selector.MatchExpressions {
		has, ok := labels[of.Key]
		in := ok && slices.Contains(of.Values, has)
		switch of.Operator {
		case metav1.LabelSelectorOpIn:
			if !in {
				return false
			}
		case metav1.LabelSelectorOpNotIn:
			if in {
				return false
			}
		case metav1.LabelSelectorOpExists:
			if !ok {
				return false
			}
		case metav1.LabelSelectorOpDoesNotExist:
			if ok {
				return false
			}
		}
	}
	return true
}
