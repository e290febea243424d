package dns

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/conformance/cases/traffic"
	"quintet.dev/quintet/conformance/suite"
)

// noData queries a single-family Service for the other family, on a cluster of any.
func noData(ctx context.Context, t *suite.T) {
	service := traffic.Expose(ctx, t, "web", func(s *corev1.ServiceSpec) {
		s.IPFamilyPolicy = ptr.To(corev1.IPFamilyPolicySingleStack)
	})
	_, zone := startClient(ctx, t)
	ip, other := service.Spec.ClusterIP, "AAAA"
	if addressKind(ip) == other {
		other = "A"
	}
	records(ctx, t, "web."+zone, addressKind(ip), noError, address("web."+zone, ip))
	records(ctx, t, "web."+zone, other, noError)
}

// unknown also queries a name that exists: a server that serves another domain answers NXDOMAIN to everything.
func unknown(ctx context.Context, t *suite.T) {
	ip := traffic.Expose(ctx, t, "web").Spec.ClusterIP
	_, zone := startClient(ctx, t)
	records(ctx, t, "web."+zone, addressKind(ip), noError, address("web."+zone, ip))
	for _, kind := range []string{"A", "AAAA", "SRV"} {
		records(ctx, t, "nothing."+zone, kind, nxDomain)
	}
}

func srv(ctx context.Context, t *suite.T) {
	traffic.Expose(ctx, t, "web", func(s *corev1.ServiceSpec) {
		s.Ports = append(s.Ports, corev1.ServicePort{Name: "names", Port: 53, Protocol: corev1.ProtocolUDP})
	})
	_, zone := startClient(ctx, t)
	for owner, port := range map[string]int{"_http._tcp.web." + zone: 80, "_names._udp.web." + zone: 53} {
		// Priority and weight are the server's choice.
		ask(ctx, t, []string{owner, "SRV"}, noError,
			ConsistOf(And(HavePrefix(owner+". SRV "), HaveSuffix(fmt.Sprintf(" %d web.%s.", port, zone)))))
	}
}

func srvHeadless(ctx context.Context, t *suite.T) {
	traffic.Expose(ctx, t, "web", traffic.Headless)
	pods, zone := startClient(ctx, t,
		traffic.Named(traffic.Server(t, "server-0", "web"), "first", "web"), traffic.Server(t, "server-1", "web"))
	owner := "_http._tcp.web." + zone
	port := fmt.Sprintf(" %d ", traffic.HTTPPort) // nothing is proxied: it is the pods' own
	found := ask(ctx, t, []string{owner, "SRV"}, noError, ConsistOf(
		And(HavePrefix(owner+". SRV "), HaveSuffix(port+"first.web."+zone+".")),
		And(HavePrefix(owner+". SRV "), ContainSubstring(port), HaveSuffix(".web."+zone+"."))))
	var addresses []string
	for _, line := range found {
		target := strings.TrimSuffix(line[strings.LastIndex(line, " ")+1:], ".")
		kind := addressKind(pods["server-0"].Status.PodIP)
		for _, record := range ask(ctx, t, []string{target, kind}, noError, HaveLen(1)) {
			addresses = append(addresses, record[strings.LastIndex(record, " ")+1:])
		}
	}
	t.Expect(addresses).To(ConsistOf(pods["server-0"].Status.PodIP, pods["server-1"].Status.PodIP),
		"addresses of the targets")
}

func reverse(ctx context.Context, t *suite.T) {
	service := traffic.Expose(ctx, t, "web")
	_, zone := startClient(ctx, t)
	ask(ctx, t, []string{service.Spec.ClusterIP, "PTR"}, noError, ConsistOf(HaveSuffix(" PTR web."+zone+".")))
}

func reversePod(ctx context.Context, t *suite.T) {
	traffic.Expose(ctx, t, "web", traffic.Headless)
	pods, zone := startClient(ctx, t, traffic.Named(traffic.Server(t, "server", "web"), "first", "web"))
	ask(ctx, t, []string{pods["server"].Status.PodIP, "PTR"}, noError,
		ConsistOf(HaveSuffix(" PTR first.web."+zone+".")))
}

// externalName points to a name of the cluster itself, so that no name server outside is asked.
func externalName(ctx context.Context, t *suite.T) {
	target := traffic.Expose(ctx, t, "target")
	_, zone := startClient(ctx, t)
	traffic.Expose(ctx, t, "alias", func(s *corev1.ServiceSpec) {
		*s = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "target." + zone}
	})
	ask(ctx, t, []string{"alias." + zone, "CNAME"}, noError, ConsistOf("alias."+zone+". CNAME target."+zone+"."))
	ask(ctx, t, []string{"alias." + zone, addressKind(target.Spec.ClusterIP)}, noError,
		ContainElement("alias."+zone+". CNAME target."+zone+"."))
}

func schemaVersion(ctx context.Context, t *suite.T) {
	_, zone := startClient(ctx, t)
	name := "dns-version." + strings.TrimPrefix(zone, t.Namespace+".svc.")
	ask(ctx, t, []string{name, "TXT"}, noError, ConsistOf(MatchRegexp(`^\S+ TXT \d+\.\d+\.\d+$`)))
}

func overTCP(ctx context.Context, t *suite.T) {
	service := traffic.Expose(ctx, t, "web")
	_, zone := startClient(ctx, t)
	ip := service.Spec.ClusterIP
	ask(ctx, t, []string{"web." + zone, addressKind(ip), "--tcp"}, noError, ConsistOf(address("web."+zone, ip)))
	ask(ctx, t, []string{"nothing." + zone, addressKind(ip), "--tcp"}, nxDomain, BeEmpty())
}

func readyOnly(ctx context.Context, t *suite.T) {
	traffic.Expose(ctx, t, "web", traffic.Headless)
	t.CreatePod(ctx, traffic.Unready(traffic.Named(traffic.Server(t, "unready", "web"), "second", "web")))
	pods, zone := startClient(ctx, t, traffic.Named(traffic.Server(t, "ready", "web"), "first", "web"))
	traffic.WaitRunning(ctx, t, "unready")
	ip := pods["ready"].Status.PodIP
	for _, name := range []string{"web." + zone, "first.web." + zone} {
		records(ctx, t, name, addressKind(ip), noError, address(name, ip))
	}
	records(ctx, t, "second.web."+zone, addressKind(ip), nxDomain)
}

func publishNotReady(ctx context.Context, t *suite.T) {
	traffic.Expose(ctx, t, "web", traffic.Headless, func(s *corev1.ServiceSpec) { s.PublishNotReadyAddresses = true })
	t.CreatePod(ctx, traffic.Unready(traffic.Named(traffic.Server(t, "unready", "web"), "first", "web")))
	_, zone := startClient(ctx, t)
	ip := traffic.WaitRunning(ctx, t, "unready").Status.PodIP
	for _, name := range []string{"web." + zone, "first.web." + zone} {
		records(ctx, t, name, addressKind(ip), noError, address(name, ip))
	}
}

func endpointHostname(ctx context.Context, t *suite.T) {
	traffic.Expose(ctx, t, "manual", traffic.Headless, traffic.WithoutSelector)
	pods, zone := startClient(ctx, t)
	ip := pods["client"].Status.PodIP
	traffic.AddSlice(ctx, t, "manual", ip, discoveryv1.Endpoint{Hostname: ptr.To("given")})
	for _, name := range []string{"manual." + zone, "given.manual." + zone} {
		records(ctx, t, name, addressKind(ip), noError, address(name, ip))
	}
}
