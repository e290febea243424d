package networkpolicy

import (
	"context"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/conformance/cases/traffic"
	"quintet.dev/quintet/conformance/suite"
)

const (
	ingress = networkingv1.PolicyTypeIngress
	egress  = networkingv1.PolicyTypeEgress
)

// policy returns a policy for the pods of an app, or for all with "", without rules.
func policy(name, app string, types ...networkingv1.PolicyType) *networkingv1.NetworkPolicy {
	p := &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       networkingv1.NetworkPolicySpec{PolicyTypes: types},
	}
	if app != "" {
		p.Spec.PodSelector = *labelled("app", app)
	}
	return p
}

// from returns a policy of type Ingress for the app "server" with one rule, of these peers and of all ports.
func from(peers ...networkingv1.NetworkPolicyPeer) *networkingv1.NetworkPolicy {
	p := policy("from", "server", ingress)
	p.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{From: peers}}
	return p
}

// at returns a policy of type Ingress for the app "server" with one rule, of these ports and of all peers.
func at(ports ...networkingv1.NetworkPolicyPort) *networkingv1.NetworkPolicy {
	p := policy("at", "server", ingress)
	p.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{Ports: ports}}
	return p
}

// to returns a policy of type Egress for the app "client" with one rule, of these peers and of all ports.
func to(peers ...networkingv1.NetworkPolicyPeer) *networkingv1.NetworkPolicy {
	p := policy("to", "client", egress)
	p.Spec.Egress = []networkingv1.NetworkPolicyEgressRule{{To: peers}}
	return p
}

func labelled(key, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}

// pods is a peer: the pods of an app in the policy's namespace.
func pods(app string) networkingv1.NetworkPolicyPeer {
	return networkingv1.NetworkPolicyPeer{PodSelector: labelled("app", app)}
}

// namespaces is a peer: all pods of the namespaces with a label.
func namespaces(key, value string) networkingv1.NetworkPolicyPeer {
	return networkingv1.NetworkPolicyPeer{NamespaceSelector: labelled(key, value)}
}

func number(protocol corev1.Protocol, port int32) networkingv1.NetworkPolicyPort {
	return networkingv1.NetworkPolicyPort{Protocol: &protocol, Port: ptr.To(intstr.FromInt32(port))}
}

func create(ctx context.Context, t *suite.T, p *networkingv1.NetworkPolicy) {
	_, err := t.Client.NetworkingV1().NetworkPolicies(t.Namespace).Create(ctx, p, metav1.CreateOptions{})
	t.Must(err, "create NetworkPolicy %s", p.Name)
}

func replace(ctx context.Context, t *suite.T, p *networkingv1.NetworkPolicy) {
	_, err := t.Client.NetworkingV1().NetworkPolicies(t.Namespace).Update(ctx, p, metav1.UpdateOptions{})
	t.Must(err, "update NetworkPolicy %s", p.Name)
}

func remove(ctx context.Context, t *suite.T, name string) {
	err := t.Client.NetworkingV1().NetworkPolicies(t.Namespace).Delete(ctx, name, metav1.DeleteOptions{})
	t.Must(err, "delete NetworkPolicy %s", name)
}

// start runs clients by these names and a server, and returns the server's address once every client has reached it:
// later blocked traffic is blocked by a policy.
func start(ctx context.Context, t *suite.T, clients ...string) string {
	all := []*corev1.Pod{traffic.Server(t, "server", "server")}
	for _, name := range clients {
		all = append(all, traffic.Client(t, name))
	}
	ip := traffic.Start(ctx, t, all...)["server"].Status.PodIP
	for _, name := range clients {
		open(ctx, t, name, ip)
	}
	return ip
}

// join runs one more client, in the namespace of t, that has reached an address.
func join(ctx context.Context, t *suite.T, name, address string) {
	traffic.Start(ctx, t, traffic.Client(t, name))
	open(ctx, t, name, address)
}

// open waits until a client reaches a server.
func open(ctx context.Context, t *suite.T, client, address string) {
	openAt(ctx, t, client, address, traffic.HTTPPort)
}

func openAt(ctx context.Context, t *suite.T, client, address string, port int32) {
	what := "an answer to " + client + " from " + traffic.HostPort(address, port)
	traffic.Answers(ctx, t, what, traffic.Get(t, client, address, port), Not(BeEmpty()))
}

// blocked waits until a client does not reach a server, for good.
func blocked(ctx context.Context, t *suite.T, client, address string) {
	blockedAt(ctx, t, client, address, traffic.HTTPPort)
}

func blockedAt(ctx context.Context, t *suite.T, client, address string, port int32) {
	what := "no answer to " + client + " from " + traffic.HostPort(address, port)
	traffic.Blocked(ctx, t, what, traffic.Get(t, client, address, port))
}
