package proxy

import (
	"context"
	"fmt"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"quintet.dev/quintet/conformance/cases/traffic"
	"quintet.dev/quintet/conformance/suite"
)

func udp(ctx context.Context, t *suite.T) {
	service := traffic.Expose(ctx, t, "web", traffic.UDP)
	pods := traffic.Start(ctx, t, traffic.Client(t, "client"), traffic.Server(t, "server", "web"))
	traffic.Answers(ctx, t, "an answer over UDP", traffic.Datagram(t, "client", service.Spec.ClusterIP, 80),
		HavePrefix("server "+pods["client"].Status.PodIP))
}

func severalPorts(ctx context.Context, t *suite.T) {
	service := traffic.Expose(ctx, t, "web", func(s *corev1.ServiceSpec) {
		s.Ports = append(s.Ports, corev1.ServicePort{
			Name: "other", Port: 81, TargetPort: intstr.FromInt32(traffic.OtherPort),
		})
	})
	ip := traffic.Start(ctx, t, traffic.Client(t, "client"), traffic.Server(t, "server", "web"))["server"].Status.PodIP
	for port, target := range map[int32]int32{80: traffic.HTTPPort, 81: traffic.OtherPort} {
		traffic.Answers(ctx, t, fmt.Sprintf("an answer at port %d", port),
			traffic.Local(t, "client", service.Spec.ClusterIP, port), Equal(traffic.HostPort(ip, target)))
	}
	traffic.Blocked(ctx, t, "no answer at a port that the Service has not",
		traffic.Get(t, "client", service.Spec.ClusterIP, traffic.HTTPPort))
}

func twoProtocols(ctx context.Context, t *suite.T) {
	service := traffic.Expose(ctx, t, "web", func(s *corev1.ServiceSpec) {
		s.Ports = append(s.Ports, corev1.ServicePort{
			Name: "udp", Port: 80, Protocol: corev1.ProtocolUDP, TargetPort: intstr.FromInt32(traffic.UDPPort),
		})
	})
	traffic.Start(ctx, t, traffic.Client(t, "client"), traffic.Server(t, "server", "web"))
	traffic.Answers(ctx, t, "an answer over TCP", traffic.Get(t, "client", service.Spec.ClusterIP, 80), Equal("server"))
	traffic.Answers(ctx, t, "an answer over UDP", traffic.Datagram(t, "client", service.Spec.ClusterIP, 80),
		HavePrefix("server "))
}

// toNamedPort leads to the port that endpoints call web.
func toNamedPort(s *corev1.ServiceSpec) { s.Ports[0].TargetPort = intstr.FromString("web") }

func namedTargetPort(ctx context.Context, t *suite.T) {
	service := traffic.Expose(ctx, t, "web", toNamedPort)
	first, second := traffic.Server(t, "first", "web"), traffic.Server(t, "second", "web")
	first.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "web", ContainerPort: traffic.HTTPPort}}
	second.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "web", ContainerPort: traffic.OtherPort}}
	pods := traffic.Start(ctx, t, traffic.Client(t, "client"), first, second)
	for name, port := range map[string]int32{"first": traffic.HTTPPort, "second": traffic.OtherPort} {
		traffic.Answers(ctx, t, "an answer of the "+name+" pod at its own port",
			traffic.Local(t, "client", service.Spec.ClusterIP, 80),
			Equal(traffic.HostPort(pods[name].Status.PodIP, port)))
	}
}

func portChange(ctx context.Context, t *suite.T) {
	service := traffic.Expose(ctx, t, "web")
	ip := traffic.Start(ctx, t, traffic.Client(t, "client"), traffic.Server(t, "server", "web"))["server"].Status.PodIP
	old := traffic.Get(t, "client", service.Spec.ClusterIP, 80)
	traffic.Answers(ctx, t, "an answer at the first port", old, Equal("server"))
	traffic.PatchService(ctx, t, "web",
		`{"spec":{"ports":[{"name":"http","port":90,"protocol":"TCP","targetPort":8081}]}}`)
	traffic.Answers(ctx, t, "an answer at the new port", traffic.Local(t, "client", service.Spec.ClusterIP, 90),
		Equal(traffic.HostPort(ip, traffic.OtherPort)))
	traffic.Blocked(ctx, t, "no answer at the old port", old)
}

func selectorChange(ctx context.Context, t *suite.T) {
	service := traffic.Expose(ctx, t, "web")
	traffic.Start(ctx, t,
		traffic.Client(t, "client"), traffic.Server(t, "before", "web"), traffic.Server(t, "after", "new"))
	attempt := traffic.Get(t, "client", service.Spec.ClusterIP, 80)
	traffic.Answers(ctx, t, "an answer of the pod selected at first", attempt, Equal("before"))
	traffic.PatchService(ctx, t, "web", `{"spec":{"selector":{"app":"new"}}}`)
	suite.WaitFor(ctx, t, "answers of the pod selected now alone", traffic.Names(6, attempt), Equal([]string{"after"}))
}

func deletedService(ctx context.Context, t *suite.T) {
	service := traffic.Expose(ctx, t, "web")
	traffic.Start(ctx, t, traffic.Client(t, "client"), traffic.Server(t, "server", "web"))
	attempt := traffic.Get(t, "client", service.Spec.ClusterIP, 80)
	traffic.Answers(ctx, t, "an answer", attempt, Equal("server"))
	t.Must(t.Client.CoreV1().Services(t.Namespace).Delete(ctx, "web", metav1.DeleteOptions{}), "delete the Service")
	traffic.Blocked(ctx, t, "no answer at the address of a deleted Service", attempt)
}
