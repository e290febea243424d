package networkpolicy

import (
	"context"

	. "github.com/onsi/gomega"
	networkingv1 "k8s.io/api/networking/v1"

	"quintet.dev/quintet/conformance/cases/traffic"
	"quintet.dev/quintet/conformance/suite"
)

// pair runs two servers that have reached each other.
func pair(ctx context.Context, t *suite.T) (a, b string) {
	started := traffic.Start(ctx, t, traffic.Server(t, "a", "a"), traffic.Server(t, "b", "b"))
	a, b = started["a"].Status.PodIP, started["b"].Status.PodIP
	open(ctx, t, "a", b)
	open(ctx, t, "b", a)
	return a, b
}

func denyIngress(ctx context.Context, t *suite.T) {
	a, b := pair(ctx, t)
	create(ctx, t, policy("deny", "a", ingress))
	blocked(ctx, t, "b", a)
	open(ctx, t, "a", b)
}

func denyEgress(ctx context.Context, t *suite.T) {
	a, b := pair(ctx, t)
	create(ctx, t, policy("deny", "a", egress))
	blocked(ctx, t, "a", b)
	open(ctx, t, "b", a)
}

// bothSides opens first one side and then the other.
func bothSides(ctx context.Context, t *suite.T) {
	server := start(ctx, t, "client")
	create(ctx, t, policy("deny", "", ingress, egress))
	blocked(ctx, t, "client", server)
	create(ctx, t, from(pods("client")))
	blocked(ctx, t, "client", server)
	create(ctx, t, to(pods("server")))
	open(ctx, t, "client", server)
	remove(ctx, t, "from")
	blocked(ctx, t, "client", server)
}

func selectedOnly(ctx context.Context, t *suite.T) {
	a, b := pair(ctx, t)
	other := traffic.InNamespace(ctx, t, "team", "other")
	c := traffic.Start(ctx, other, traffic.Server(other, "a", "a"))["a"].Status.PodIP
	create(ctx, t, policy("deny", "a", ingress))
	blocked(ctx, t, "b", a)
	open(ctx, t, "a", b)
	open(ctx, t, "b", c)
}

func allowAll(ctx context.Context, t *suite.T) {
	server := start(ctx, t, "client")
	other := traffic.InNamespace(ctx, t, "team", "other")
	join(ctx, other, "stranger", server)
	create(ctx, t, policy("deny", "", ingress))
	blocked(ctx, t, "client", server)
	blocked(ctx, other, "stranger", server)
	create(ctx, t, from())
	open(ctx, t, "client", server)
	open(ctx, other, "stranger", server)
}

func additive(ctx context.Context, t *suite.T) {
	server := start(ctx, t, "first", "second", "third")
	create(ctx, t, from(pods("first")))
	blocked(ctx, t, "second", server)
	more := from(pods("second"))
	more.Name = "more"
	create(ctx, t, more)
	open(ctx, t, "second", server)
	open(ctx, t, "first", server)
	blocked(ctx, t, "third", server)
}

// replies closes to each end of a connection the direction in which replies go.
func replies(ctx context.Context, t *suite.T) {
	a, b := pair(ctx, t)
	create(ctx, t, policy("no-egress", "b", egress))
	create(ctx, t, policy("no-ingress", "a", ingress))
	blocked(ctx, t, "b", a)
	open(ctx, t, "a", b)
	traffic.Answers(ctx, t, "an answer over UDP", traffic.Datagram(t, "a", b, traffic.UDPPort), HavePrefix("b "))
}

func self(ctx context.Context, t *suite.T) {
	server := start(ctx, t, "client")
	create(ctx, t, policy("deny", "", ingress, egress))
	blocked(ctx, t, "client", server)
	open(ctx, t, "server", server)
}

// probes starts one pod before the policy and one after.
func probes(ctx context.Context, t *suite.T) {
	server := start(ctx, t, "client")
	create(ctx, t, policy("deny", "", ingress, egress))
	blocked(ctx, t, "client", server)
	late := traffic.Start(ctx, t, traffic.Server(t, "late", "late"))["late"]
	blocked(ctx, t, "client", late.Status.PodIP)
}

func defaultTypes(ctx context.Context, t *suite.T) {
	a, b := pair(ctx, t)
	p := policy("types", "a")
	create(ctx, t, p)
	blocked(ctx, t, "b", a)
	open(ctx, t, "a", b)
	remove(ctx, t, "types")
	open(ctx, t, "b", a)
	p.Spec.Egress = []networkingv1.NetworkPolicyEgressRule{{To: []networkingv1.NetworkPolicyPeer{pods("absent")}}}
	create(ctx, t, p)
	blocked(ctx, t, "a", b)
	blocked(ctx, t, "b", a)
}
