package services

import (
	"context"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/conformance/suite"
)

func dnsService(ctx context.Context, t *suite.T) {
	client(ctx, t, "client")
	service := expose(ctx, t, "web")
	ready(ctx, t, "client")
	for _, name := range []string{"web", "web." + t.Namespace, "web." + t.Namespace + ".svc"} {
		suite.WaitFor(ctx, t, "the address of "+name, resolve(t, "client", name), Equal([]string{service.Spec.ClusterIP}))
	}
	suite.WaitFor(ctx, t, "the address of kubernetes.default.svc", resolve(t, "client", "kubernetes.default.svc"), HaveLen(1))
}

// headless makes a Service of no address of its own.
func headless(s *corev1.ServiceSpec) { s.ClusterIP = corev1.ClusterIPNone }

func dnsHeadless(ctx context.Context, t *suite.T) {
	client(ctx, t, "client")
	t.CreatePod(ctx, server(t, "server-0", "web"))
	t.CreatePod(ctx, server(t, "server-1", "web"))
	expose(ctx, t, "web", headless)
	ips := ready(ctx, t, "client", "server-0", "server-1")
	suite.WaitFor(ctx, t, "the addresses of both pods", resolve(t, "client", "web"), ConsistOf(ips["server-0"], ips["server-1"]))
}

func dnsHostname(ctx context.Context, t *suite.T) {
	client(ctx, t, "client")
	p := server(t, "server", "web")
	p.Spec.Hostname, p.Spec.Subdomain = "first", "web"
	t.CreatePod(ctx, p)
	expose(ctx, t, "web", headless)
	ip := ready(ctx, t, "client", "server")["server"]
	suite.WaitFor(ctx, t, "the pod's address", resolve(t, "client", "first.web."+t.Namespace+".svc"), Equal([]string{ip}))
}

func dnsUnknown(ctx context.Context, t *suite.T) {
	client(ctx, t, "client")
	ready(ctx, t, "client")
	missing := func(ctx context.Context) (string, error) {
		_, stderr, err := t.Exec(ctx, "client", "", "testimage", "resolve", "nothing."+t.Namespace+".svc")
		if err == nil {
			return "an address", nil
		}
		return stderr, nil
	}
	suite.WaitFor(ctx, t, "no such name", missing, ContainSubstring("no such host"))
}
