package networkpolicy

import (
	"context"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/conformance/cases/traffic"
	"quintet.dev/quintet/conformance/suite"
)

func port(ctx context.Context, t *suite.T) {
	server := start(ctx, t, "client")
	openAt(ctx, t, "client", server, traffic.OtherPort)
	create(ctx, t, at(number(corev1.ProtocolTCP, traffic.HTTPPort)))
	blockedAt(ctx, t, "client", server, traffic.OtherPort)
	openAt(ctx, t, "client", server, traffic.HTTPPort)
}

// portRange has a server with one port below, two in and one above the range.
func portRange(ctx context.Context, t *suite.T) {
	pod := traffic.Server(t, "server", "server")
	pod.Spec.Containers[0].Args = []string{"serve", "--http=:8079,:8080,:8085,:8086"}
	server := traffic.Start(ctx, t, pod, traffic.Client(t, "client"))["server"].Status.PodIP
	for _, port := range []int32{8079, 8080, 8085, 8086} {
		openAt(ctx, t, "client", server, port)
	}
	ports := number(corev1.ProtocolTCP, 8080)
	ports.EndPort = ptr.To[int32](8085)
	create(ctx, t, at(ports))
	blockedAt(ctx, t, "client", server, 8079)
	blockedAt(ctx, t, "client", server, 8086)
	openAt(ctx, t, "client", server, 8080)
	openAt(ctx, t, "client", server, 8085)
}

// namedPort has two servers that mean different numbers by the name.
func namedPort(ctx context.Context, t *suite.T) {
	first, second := traffic.Server(t, "first", "server"), traffic.Server(t, "second", "server")
	first.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "web", ContainerPort: traffic.HTTPPort}}
	second.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "web", ContainerPort: traffic.OtherPort}}
	started := traffic.Start(ctx, t, traffic.Client(t, "client"), first, second)
	a, b := started["first"].Status.PodIP, started["second"].Status.PodIP
	openAt(ctx, t, "client", a, traffic.OtherPort)
	openAt(ctx, t, "client", b, traffic.HTTPPort)
	create(ctx, t, at(networkingv1.NetworkPolicyPort{Port: ptr.To(intstr.FromString("web"))}))
	blockedAt(ctx, t, "client", a, traffic.OtherPort)
	blockedAt(ctx, t, "client", b, traffic.HTTPPort)
	openAt(ctx, t, "client", a, traffic.HTTPPort)
	openAt(ctx, t, "client", b, traffic.OtherPort)
}

func peerAndPort(ctx context.Context, t *suite.T) {
	server := start(ctx, t, "friend", "stranger")
	openAt(ctx, t, "friend", server, traffic.OtherPort)
	p := from(pods("friend"))
	p.Spec.Ingress[0].Ports = []networkingv1.NetworkPolicyPort{number(corev1.ProtocolTCP, traffic.HTTPPort)}
	create(ctx, t, p)
	blocked(ctx, t, "stranger", server)
	blockedAt(ctx, t, "friend", server, traffic.OtherPort)
	open(ctx, t, "friend", server)
}

// protocol has a server with TCP and UDP at one number.
func protocol(ctx context.Context, t *suite.T) {
	pod := traffic.Server(t, "server", "server")
	pod.Spec.Containers[0].Args = []string{"serve", "--text=server", "--http=:8080", "--udp=:8080"}
	server := traffic.Start(ctx, t, pod, traffic.Client(t, "client"))["server"].Status.PodIP
	datagram := traffic.Datagram(t, "client", server, traffic.HTTPPort)
	open(ctx, t, "client", server)
	traffic.Answers(ctx, t, "an answer over UDP", datagram, HavePrefix("server "))
	create(ctx, t, at(number(corev1.ProtocolUDP, traffic.HTTPPort)))
	blocked(ctx, t, "client", server)
	traffic.Answers(ctx, t, "an answer over the protocol of the rule", datagram, HavePrefix("server "))
	replace(ctx, t, at(number(corev1.ProtocolTCP, traffic.HTTPPort)))
	open(ctx, t, "client", server)
	traffic.Blocked(ctx, t, "no answer over UDP", datagram)
}

func egressPort(ctx context.Context, t *suite.T) {
	server := start(ctx, t, "client")
	openAt(ctx, t, "client", server, traffic.OtherPort)
	p := to()
	p.Spec.Egress[0].Ports = []networkingv1.NetworkPolicyPort{number(corev1.ProtocolTCP, traffic.OtherPort)}
	create(ctx, t, p)
	blockedAt(ctx, t, "client", server, traffic.HTTPPort)
	openAt(ctx, t, "client", server, traffic.OtherPort)
}
