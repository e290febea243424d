package proxy

import (
	"context"
	"fmt"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/conformance/cases/traffic"
	"quintet.dev/quintet/conformance/suite"
)

func withNodePort(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeNodePort }

func externalLocalPolicy(s *corev1.ServiceSpec) {
	s.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
}

func nodePort(ctx context.Context, t *suite.T) {
	service := traffic.Expose(ctx, t, "web", withNodePort)
	traffic.Start(ctx, t, traffic.Client(t, "client"), traffic.Server(t, "server", "web"))
	for _, node := range traffic.Nodes(ctx, t) {
		traffic.Answers(ctx, t, "an answer at node "+node.Name,
			traffic.Get(t, "client", traffic.InternalIP(t, node), service.Spec.Ports[0].NodePort), Equal("server"))
	}
}

func nodePortUDP(ctx context.Context, t *suite.T) {
	service := traffic.Expose(ctx, t, "web", traffic.UDP, withNodePort)
	traffic.Start(ctx, t, traffic.Client(t, "client"), traffic.Server(t, "server", "web"))
	for _, node := range traffic.Nodes(ctx, t) {
		traffic.Answers(ctx, t, "an answer at node "+node.Name,
			traffic.Datagram(t, "client", traffic.InternalIP(t, node), service.Spec.Ports[0].NodePort),
			HavePrefix("server "))
	}
}

func nodePortRemoved(ctx context.Context, t *suite.T) {
	service := traffic.Expose(ctx, t, "web", withNodePort)
	traffic.Start(ctx, t, traffic.Client(t, "client"), traffic.Server(t, "server", "web"))
	node := traffic.Nodes(ctx, t)[0]
	attempt := traffic.Get(t, "client", traffic.InternalIP(t, node), service.Spec.Ports[0].NodePort)
	traffic.Answers(ctx, t, "an answer at the node port", attempt, Equal("server"))
	traffic.PatchService(ctx, t, "web", `{"spec":{"type":"ClusterIP","externalTrafficPolicy":null,`+
		`"ports":[{"name":"http","port":80,"protocol":"TCP","targetPort":8080}]}}`)
	traffic.Blocked(ctx, t, "no answer at the former node port", attempt)
	traffic.Answers(ctx, t, "an answer at the cluster IP", traffic.Get(t, "client", service.Spec.ClusterIP, 80),
		Equal("server"))
}

// externalLocal connects from the network of another node, which is outside of the pod network.
func externalLocal(ctx context.Context, t *suite.T) {
	service := traffic.Expose(ctx, t, "web", withNodePort, externalLocalPolicy)
	nodes := traffic.Nodes(ctx, t)
	traffic.Start(ctx, t,
		traffic.OnHost(traffic.OnNode(traffic.Client(t, "client"), nodes[0].Name)),
		traffic.OnNode(traffic.Server(t, "server", "web"), nodes[1].Name))
	traffic.Answers(ctx, t, "an answer that names the client's node",
		traffic.Remote(t, "client", traffic.InternalIP(t, nodes[1]), service.Spec.Ports[0].NodePort),
		traffic.FromAny(nodes[0]))
}

func externalLocalNone(ctx context.Context, t *suite.T) {
	service := traffic.Expose(ctx, t, "web", withNodePort, externalLocalPolicy)
	nodes := traffic.Nodes(ctx, t)
	traffic.Start(ctx, t,
		traffic.OnHost(traffic.OnNode(traffic.Client(t, "on-0"), nodes[0].Name)),
		traffic.OnHost(traffic.OnNode(traffic.Client(t, "on-1"), nodes[1].Name)),
		traffic.OnNode(traffic.Server(t, "server", "web"), nodes[0].Name))
	port := service.Spec.Ports[0].NodePort
	traffic.Answers(ctx, t, "an answer at the endpoint's node",
		traffic.Get(t, "on-1", traffic.InternalIP(t, nodes[0]), port), Equal("server"))
	elsewhere := traffic.Get(t, "on-0", traffic.InternalIP(t, nodes[1]), port)
	traffic.Blocked(ctx, t, "no answer at the other node", elsewhere)
	traffic.PatchService(ctx, t, "web", `{"spec":{"externalTrafficPolicy":"Cluster"}}`)
	traffic.Answers(ctx, t, "an answer at the other node without the policy", elsewhere, Equal("server"))
}

// Addresses that no machine has: they are reserved for documentation.
const (
	documented   = "203.0.113.80"
	documentedV6 = "2001:db8::80"
)

// outsideIP is an address of the family of a Service that no machine has.
func outsideIP(service *corev1.Service) string {
	if len(service.Spec.IPFamilies) > 0 && service.Spec.IPFamilies[0] == corev1.IPv6Protocol {
		return documentedV6
	}
	return documented
}

// externalIP can't be verified where an admission plug-in forbids external IPs.
func externalIP(ctx context.Context, t *suite.T) {
	service := traffic.Expose(ctx, t, "web")
	service.Spec.ExternalIPs = []string{outsideIP(service)}
	_, err := t.Client.CoreV1().Services(t.Namespace).Update(ctx, service, metav1.UpdateOptions{})
	if apierrors.IsForbidden(err) {
		t.Fault(fmt.Errorf("the cluster forbids external IPs: %w", err))
	}
	t.Must(err, "give the Service an external IP")
	traffic.Start(ctx, t, traffic.Client(t, "client"), traffic.Server(t, "server", "web"))
	traffic.Answers(ctx, t, "an answer at the external IP", traffic.Get(t, "client", service.Spec.ExternalIPs[0], 80),
		Equal("server"))
}

// balanced makes a Service one of a load balancer that no controller makes: the case plays it.
func balanced(s *corev1.ServiceSpec) {
	s.Type = corev1.ServiceTypeLoadBalancer
	s.LoadBalancerClass = ptr.To("conformance.quintet.dev/none")
}

// giveAddress reports the load balancer's address in the Service's status.
func giveAddress(ctx context.Context, t *suite.T, service *corev1.Service) string {
	address := outsideIP(service)
	service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{
		{IP: address, IPMode: ptr.To(corev1.LoadBalancerIPModeVIP)},
	}
	_, err := t.Client.CoreV1().Services(t.Namespace).UpdateStatus(ctx, service, metav1.UpdateOptions{})
	t.Must(err, "report the load balancer's address")
	return address
}

func loadBalancer(ctx context.Context, t *suite.T) {
	address := giveAddress(ctx, t, traffic.Expose(ctx, t, "web", balanced))
	traffic.Start(ctx, t, traffic.Client(t, "client"), traffic.Server(t, "server", "web"))
	traffic.Answers(ctx, t, "an answer at the load balancer's address", traffic.Get(t, "client", address, 80),
		Equal("server"))
}

func sourceRanges(ctx context.Context, t *suite.T) {
	pods := traffic.Start(ctx, t,
		traffic.Client(t, "inside"), traffic.Client(t, "outside"), traffic.Server(t, "server", "web"))
	service := traffic.Expose(ctx, t, "web", balanced, func(s *corev1.ServiceSpec) {
		s.LoadBalancerSourceRanges = []string{traffic.SingleAddress(pods["inside"].Status.PodIP)}
	})
	address := giveAddress(ctx, t, service)
	traffic.Answers(ctx, t, "an answer to the client inside", traffic.Get(t, "inside", address, 80), Equal("server"))
	outside := traffic.Get(t, "outside", address, 80)
	traffic.Blocked(ctx, t, "no answer to the client outside", outside)
	traffic.PatchService(ctx, t, "web", `{"spec":{"loadBalancerSourceRanges":null}}`)
	traffic.Answers(ctx, t, "an answer to the client outside without ranges", outside, Equal("server"))
}

// healthCheckNodePort connects from the network of each node, and every node responds.
func healthCheckNodePort(ctx context.Context, t *suite.T) {
	service := traffic.Expose(ctx, t, "web", balanced, externalLocalPolicy)
	port := service.Spec.HealthCheckNodePort
	t.Expect(port).NotTo(BeZero(), "the health check's node port")
	nodes := traffic.Nodes(ctx, t)
	traffic.Start(ctx, t,
		traffic.OnHost(traffic.OnNode(traffic.Client(t, "client"), nodes[0].Name)),
		traffic.OnNode(traffic.Server(t, "server", "web"), nodes[0].Name))
	check := func(node corev1.Node) traffic.Attempt {
		return traffic.GetPath(t, "client", traffic.InternalIP(t, node), port, "healthz")
	}
	suite.WaitFor(ctx, t, "a healthy answer of the endpoint's node", check(nodes[0]), HaveField("OK", BeTrue()))
	for _, node := range nodes[1:] {
		suite.WaitFor(ctx, t, "an unhealthy answer of node "+node.Name, check(node),
			traffic.Fails(ContainSubstring("503")))
	}
	traffic.Remove(ctx, t, "server")
	suite.WaitFor(ctx, t, "an unhealthy answer without endpoint", check(nodes[0]),
		traffic.Fails(ContainSubstring("503")))
}
