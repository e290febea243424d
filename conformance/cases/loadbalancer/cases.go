// Package loadbalancer holds the cases that test the load balancers of Services: that a Service gets an address, that
// the address leads to its endpoints, and that it is given back.
package loadbalancer

import (
	"cmp"
	"context"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/conformance/cases/traffic"
	"quintet.dev/quintet/conformance/suite"
)

const (
	serviceDocs = "https://kubernetes.io/docs/concepts/services-networking/service/"
	external    = "https://kubernetes.io/docs/tasks/access-application-cluster/create-external-load-balancer/"
	sourceIP    = "https://kubernetes.io/docs/tutorials/services/source-ip/"
)

// Cases returns the cases of load balancers.
func Cases() []suite.Case {
	outside := []suite.Feature{suite.NodeAccess}
	all := []suite.Case{
		{ID: "load-balancer/address", Run: fromInside, Reference: serviceDocs + "#loadbalancer",
			Requirement: "The address of a load balancer MUST lead to the Service's endpoints, from pods and from nodes."},
		{ID: "load-balancer/outside", Run: fromOutside, Reference: external, Needs: outside,
			Requirement: "The address of a load balancer MUST lead clients outside of the cluster to every endpoint."},
		{ID: "load-balancer/outside-local", Run: outsideLocal, Reference: external + "#preserving-the-client-source-ip",
			Needs: append([]suite.Feature{suite.TwoNodes}, outside...),
			Requirement: "With externalTrafficPolicy Local a load balancer MUST use nodes with an endpoint alone, " +
				"which sees the client's address."},
		{ID: "load-balancer/own-address", Run: ownAddress, Reference: serviceDocs + "#loadbalancer",
			Requirement: "Services with the same port MUST each be reached at the address of their own load balancer."},
		{ID: "load-balancer/port-change", Run: portChange, Reference: serviceDocs + "#loadbalancer",
			Requirement: "A load balancer MUST follow its Service's ports, and keep its address."},
		{ID: "load-balancer/other-class", Run: otherClass, Reference: serviceDocs + "#load-balancer-class",
			Requirement: "A Service of a load balancer class that has no implementation MUST be left without an address."},
		{ID: "load-balancer/type-change", Run: typeChange, Reference: serviceDocs + "#loadbalancer",
			Requirement: "A Service that is no longer of type LoadBalancer MUST lose its address, which leads nowhere."},
		{ID: "load-balancer/finalizer", Run: finalizer, Reference: external + "#garbage-collecting-load-balancers",
			Requirement: "A Service with a load balancer MUST have the finalizer of its clean-up, and MUST be " +
				"gone once it is deleted."},
	}
	for i := range all {
		all[i].Component, all[i].Since = suite.LoadBalancer, "0.2"
		all[i].Needs = append(all[i].Needs, suite.HasScheduler, suite.HasControllers, suite.RunsPods, suite.PodNetwork,
			suite.ServiceNetwork, suite.LoadBalancers)
	}
	return all
}

// balanced makes a Service one with a load balancer.
func balanced(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeLoadBalancer }

func getService(t *suite.T, name string) func(ctx context.Context) (*corev1.Service, error) {
	return func(ctx context.Context) (*corev1.Service, error) {
		return t.Client.CoreV1().Services(t.Namespace).Get(ctx, name, metav1.GetOptions{})
	}
}

// addressOf returns the first address of a Service's status.
func addressOf(service *corev1.Service) string {
	ingress := service.Status.LoadBalancer.Ingress
	if len(ingress) == 0 {
		return ""
	}
	return cmp.Or(ingress[0].IP, ingress[0].Hostname)
}

// waitAddress waits until a Service has an address of its load balancer.
func waitAddress(ctx context.Context, t *suite.T, name string) string {
	return addressOf(suite.WaitFor(ctx, t, "an address of the load balancer of "+name, getService(t, name),
		WithTransform(addressOf, Not(BeEmpty()))))
}

// expose starts a server and a client, and exposes the server by a load balancer.
func expose(ctx context.Context, t *suite.T) (address string) {
	traffic.Expose(ctx, t, "web", balanced)
	traffic.Start(ctx, t, traffic.Client(t, "client"), traffic.Server(t, "server", "web"))
	address = waitAddress(ctx, t, "web")
	traffic.Answers(ctx, t, "an answer at the address", traffic.Get(t, "client", address, 80), Equal("server"))
	return address
}
