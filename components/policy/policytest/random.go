package policytest

import (
	"fmt"
	"math/rand/v2"
	"net/netip"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// Node is the node that random pods are on, every other one; the rest are on another.
const Node = "node-1"

// Pod returns a pod that runs at the addresses, with the named ports http (TCP) and dns (UDP).
func Pod(namespace, name, node string, labels map[string]string, http, dns int32, addrs ...netip.Addr) *v1.Pod {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, Labels: labels, UID: types.UID(namespace + "/" + name),
		},
		Spec: v1.PodSpec{NodeName: node, Containers: []v1.Container{{Name: "c", Ports: []v1.ContainerPort{
			{Name: "http", Protocol: v1.ProtocolTCP, ContainerPort: http},
			{Name: "dns", Protocol: v1.ProtocolUDP, ContainerPort: dns},
		}}}},
		Status: v1.PodStatus{Phase: v1.PodRunning},
	}
	for _, addr := range addrs {
		pod.Status.PodIPs = append(pod.Status.PodIPs, v1.PodIP{IP: addr.String()})
	}
	if len(addrs) > 0 {
		pod.Status.PodIP = addrs[0].String()
	}
	return pod
}

// Random makes objects of few names and labels, so that they often have to do with each other.
type Random struct{ *rand.Rand }

// NewRandom returns the same objects for the same seed.
func NewRandom(seed uint64) Random { return Random{rand.New(rand.NewPCG(seed, 7))} }

func one[T any](r Random, of ...T) T { return of[r.IntN(len(of))] }

// Namespace is the name of one of three.
func (r Random) Namespace() string { return one(r, "a", "b", "c") }

// Labels are of a pod or namespace.
func (r Random) Labels() map[string]string {
	labels := map[string]string{}
	for _, key := range []string{"app", "tier"} {
		if value := one(r, "", "x", "y", "z"); value != "" {
			labels[key] = value
		}
	}
	return labels
}

// Pod is one of a dozen, with addresses of its own.
func (r Random) Pod() *v1.Pod {
	i := r.IntN(12)
	node := []string{Node, "node-2"}[i%2]
	http, dns := one(r, int32(80), 8080), one(r, int32(53), 80)
	pod := Pod(string("abc"[i%3]), fmt.Sprintf("pod-%d", i), node, r.Labels(), http, dns,
		netip.AddrFrom4([4]byte{10, 244, byte(1 + i%2), byte(10 + i)}),
		netip.MustParseAddr(fmt.Sprintf("fd00:244:%d::%d", 1+i%2, 10+i)))
	switch r.IntN(12) {
	case 0:
		pod.Spec.HostNetwork = true
	case 1:
		pod.Status.Phase = v1.PodSucceeded
	case 2:
		pod.Status.PodIP, pod.Status.PodIPs = "", nil
	}
	return pod
}

// Selector selects everything, or by labels or expressions.
func (r Random) Selector() *metav1.LabelSelector {
	switch r.IntN(4) {
	case 0:
		return &metav1.LabelSelector{}
	case 1:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
			Key: one(r, "app", "tier"), Values: []string{"x", "y"},
			Operator: one(r, metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn),
		}}}
	case 2:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
			Key:      one(r, "app", "tier"),
			Operator: one(r, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist),
		}}}
	}
	return &metav1.LabelSelector{MatchLabels: map[string]string{one(r, "app", "tier"): one(r, "x", "y", "z")}}
}

// Policy is one of six.
func (r Random) Policy() *networkingv1.NetworkPolicy {
	policy := &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace(), Name: one(r, "p", "q")},
		Spec:       networkingv1.NetworkPolicySpec{PodSelector: *r.Selector()},
	}
	policy.Spec.PolicyTypes = one(r, nil, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
		[]networkingv1.PolicyType{networkingv1.PolicyTypeEgress},
		[]networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress})
	for range r.IntN(3) {
		rule := networkingv1.NetworkPolicyIngressRule{From: r.peers(), Ports: r.ports()}
		policy.Spec.Ingress = append(policy.Spec.Ingress, rule)
	}
	for range r.IntN(3) {
		rule := networkingv1.NetworkPolicyEgressRule{To: r.peers(), Ports: r.ports()}
		policy.Spec.Egress = append(policy.Spec.Egress, rule)
	}
	return policy
}

func (r Random) peers() []networkingv1.NetworkPolicyPeer {
	var peers []networkingv1.NetworkPolicyPeer
	for range r.IntN(4) {
		switch r.IntN(4) {
		case 0:
			peers = append(peers, networkingv1.NetworkPolicyPeer{IPBlock: r.block()})
		case 1:
			peers = append(peers, networkingv1.NetworkPolicyPeer{PodSelector: r.Selector()})
		case 2:
			peers = append(peers, networkingv1.NetworkPolicyPeer{NamespaceSelector: r.Selector()})
		case 3:
			peers = append(peers,
				networkingv1.NetworkPolicyPeer{PodSelector: r.Selector(), NamespaceSelector: r.Selector()})
		}
	}
	return peers
}

func (r Random) block() *networkingv1.IPBlock {
	return one(r,
		&networkingv1.IPBlock{CIDR: "0.0.0.0/0"},
		&networkingv1.IPBlock{CIDR: "::/0"},
		&networkingv1.IPBlock{CIDR: "0.0.0.0/0", Except: []string{"10.244.0.0/16", "192.0.2.0/31"}},
		&networkingv1.IPBlock{CIDR: "::/0", Except: []string{"fd00:244:1::/64"}},
		&networkingv1.IPBlock{CIDR: "10.244.0.0/16",
			Except: []string{"10.244.1.8/29", "10.244.2.0/28", "10.244.1.8/30"}},
		&networkingv1.IPBlock{CIDR: "10.244.1.0/28"},
		&networkingv1.IPBlock{CIDR: "10.244.1.16/28"},
		&networkingv1.IPBlock{CIDR: "fd00:244:2::/64", Except: []string{"fd00:244:2::10/124"}},
		&networkingv1.IPBlock{CIDR: "192.0.2.1/32"},
		&networkingv1.IPBlock{CIDR: "192.0.2.0/24", Except: []string{"192.0.2.0/24"}},
	)
}

func (r Random) ports() []networkingv1.NetworkPolicyPort {
	var ports []networkingv1.NetworkPolicyPort
	for range r.IntN(4) {
		var port networkingv1.NetworkPolicyPort
		port.Protocol = one(r, nil, ptr.To(v1.ProtocolTCP), ptr.To(v1.ProtocolUDP), ptr.To(v1.ProtocolSCTP))
		switch r.IntN(5) {
		case 0:
		case 1:
			port.Port = ptr.To(intstr.FromString(one(r, "http", "dns")))
		case 2:
			port.Port, port.EndPort = ptr.To(intstr.FromInt32(one(r, int32(70), 80, 81))),
				ptr.To(one(r, int32(81), 100, 9000))
		default:
			port.Port = ptr.To(intstr.FromInt32(one(r, int32(80), 8080, 53)))
		}
		ports = append(ports, port)
	}
	return ports
}

// Sample returns up to so many of the elements, in random order.
func Sample[T any](r Random, of []T, n int) []T {
	var out []T
	for _, i := range r.Perm(len(of))[:min(n, len(of))] {
		out = append(out, of[i])
	}
	return out
}
