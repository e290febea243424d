package networkpolicy

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/conformance/cases/traffic"
	"quintet.dev/quintet/conformance/suite"
)

// podSelector has a pod with the same labels in another namespace.
func podSelector(ctx context.Context, t *suite.T) {
	server := start(ctx, t, "friend", "stranger")
	other := traffic.InNamespace(ctx, t, "team", "other")
	join(ctx, other, "friend", server)
	create(ctx, t, from(pods("friend")))
	blocked(ctx, t, "stranger", server)
	blocked(ctx, other, "friend", server)
	open(ctx, t, "friend", server)
}

func matchExpressions(ctx context.Context, t *suite.T) {
	server := start(ctx, t, "first", "second", "third")
	traffic.Label(ctx, t, "second", "retired", "yes")
	create(ctx, t, from(networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: []string{"first", "second"}},
			{Key: "retired", Operator: metav1.LabelSelectorOpDoesNotExist},
		},
	}}))
	blocked(ctx, t, "second", server)
	blocked(ctx, t, "third", server)
	open(ctx, t, "first", server)
}

func namespaceSelector(ctx context.Context, t *suite.T) {
	server := start(ctx, t, "client")
	friends, strangers := traffic.InNamespace(ctx, t, "team", "friends"),
		traffic.InNamespace(ctx, t, "team", "strangers")
	join(ctx, friends, "client", server)
	join(ctx, strangers, "client", server)
	create(ctx, t, from(namespaces("team", "friends")))
	blocked(ctx, t, "client", server)
	blocked(ctx, strangers, "client", server)
	open(ctx, friends, "client", server)
}

func namespaceName(ctx context.Context, t *suite.T) {
	server := start(ctx, t, "client")
	other := traffic.InNamespace(ctx, t, "team", "other")
	join(ctx, other, "client", server)
	create(ctx, t, from(namespaces(corev1.LabelMetadataName, other.Namespace)))
	blocked(ctx, t, "client", server)
	open(ctx, other, "client", server)
}

// team runs the pods of the cases with two selectors: a server, and a selected and an unselected client in two
// namespaces.
func team(ctx context.Context, t *suite.T) (other *suite.T, server string) {
	server = start(ctx, t, "friend", "stranger")
	other = traffic.InNamespace(ctx, t, "team", "friends")
	join(ctx, other, "friend", server)
	join(ctx, other, "stranger", server)
	return other, server
}

func bothSelectors(ctx context.Context, t *suite.T) {
	other, server := team(ctx, t)
	peer := namespaces("team", "friends")
	peer.PodSelector = labelled("app", "friend")
	create(ctx, t, from(peer))
	blocked(ctx, t, "friend", server)
	blocked(ctx, t, "stranger", server)
	blocked(ctx, other, "stranger", server)
	open(ctx, other, "friend", server)
}

func eitherSelector(ctx context.Context, t *suite.T) {
	other, server := team(ctx, t)
	create(ctx, t, from(namespaces("team", "friends"), pods("friend")))
	blocked(ctx, t, "stranger", server)
	open(ctx, t, "friend", server)
	open(ctx, other, "friend", server)
	open(ctx, other, "stranger", server)
}

// ipBlock uses the range of all addresses: those of pods are not known before.
func ipBlock(ctx context.Context, t *suite.T) {
	started := traffic.Start(ctx, t,
		traffic.Server(t, "server", "server"), traffic.Client(t, "inside"), traffic.Client(t, "excepted"))
	server := started["server"].Status.PodIP
	open(ctx, t, "inside", server)
	open(ctx, t, "excepted", server)
	everything := "0.0.0.0/0"
	excepted := traffic.SingleAddress(started["excepted"].Status.PodIP)
	if traffic.IsIPv6(server) {
		everything = "::/0"
	}
	block := func(cidr string, except ...string) networkingv1.NetworkPolicyPeer {
		return networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: cidr, Except: except}}
	}
	create(ctx, t, from(block(everything, excepted)))
	blocked(ctx, t, "excepted", server)
	open(ctx, t, "inside", server)
	replace(ctx, t, from(block(excepted)))
	open(ctx, t, "excepted", server)
	blocked(ctx, t, "inside", server)
}

func egressPodSelector(ctx context.Context, t *suite.T) {
	started := traffic.Start(ctx, t,
		traffic.Client(t, "client"), traffic.Server(t, "allowed", "allowed"), traffic.Server(t, "other", "other"))
	allowed, other := started["allowed"].Status.PodIP, started["other"].Status.PodIP
	open(ctx, t, "client", allowed)
	open(ctx, t, "client", other)
	create(ctx, t, to(pods("allowed")))
	blocked(ctx, t, "client", other)
	open(ctx, t, "client", allowed)
}

// egressService allows the port of the pod, which is not the Service's, and then the Service's, which is not the pod's.
func egressService(ctx context.Context, t *suite.T) {
	traffic.Start(ctx, t,
		traffic.Client(t, "client"), traffic.Server(t, "allowed", "allowed"), traffic.Server(t, "other", "other"))
	allowed, other := traffic.Expose(ctx, t, "allowed").Spec.ClusterIP, traffic.Expose(ctx, t, "other").Spec.ClusterIP
	openAt(ctx, t, "client", allowed, 80)
	openAt(ctx, t, "client", other, 80)
	p := to(pods("allowed"))
	p.Spec.Egress[0].Ports = []networkingv1.NetworkPolicyPort{number(corev1.ProtocolTCP, traffic.HTTPPort)}
	create(ctx, t, p)
	blockedAt(ctx, t, "client", other, 80)
	openAt(ctx, t, "client", allowed, 80)
	p.Spec.Egress[0].Ports = []networkingv1.NetworkPolicyPort{number(corev1.ProtocolTCP, 80)}
	replace(ctx, t, p)
	blockedAt(ctx, t, "client", allowed, 80)
}

func ingressService(ctx context.Context, t *suite.T) {
	start(ctx, t, "friend", "stranger")
	service := traffic.Expose(ctx, t, "server").Spec.ClusterIP
	openAt(ctx, t, "friend", service, 80)
	openAt(ctx, t, "stranger", service, 80)
	create(ctx, t, from(pods("friend")))
	blockedAt(ctx, t, "stranger", service, 80)
	openAt(ctx, t, "friend", service, 80)
}
