// Package services holds the cases that judge kube-proxy and cluster DNS: that pods find each other, and the API, by the
// addresses and names of Services.
package services

import (
	"context"
	"strings"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"quintet.dev/quintet/conformance/suite"
)

const (
	serviceDocs = "https://kubernetes.io/docs/concepts/services-networking/service/"
	virtualIPs  = "https://kubernetes.io/docs/reference/networking/virtual-ips/"
	dnsDocs     = "https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/"
	apiFromPod  = "https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/"
)

// Cases returns the cases of kube-proxy and cluster DNS.
func Cases() []suite.Case {
	proxy := []suite.Case{
		{ID: "kube-proxy/cluster-ip", Run: clusterIP, Reference: virtualIPs,
			Requirement: "A cluster IP MUST lead pods to every ready endpoint, on the same node and on others."},
		{ID: "kube-proxy/hairpin", Run: hairpin, Reference: virtualIPs,
			Requirement: "A pod MUST reach itself through the Service whose only endpoint it is."},
		{ID: "kube-proxy/no-endpoint", Run: noEndpoint, Reference: virtualIPs,
			Requirement: "A connection to a Service without endpoints MUST be refused, and not time out."},
		{ID: "kube-proxy/follows-endpoints", Run: followsEndpoints, Reference: virtualIPs,
			Requirement: "Traffic to a cluster IP MUST follow the endpoints: to a new one, and not to one that is gone."},
		{ID: "kube-proxy/client-address", Run: clientAddress, Reference: virtualIPs,
			Requirement: "An endpoint MUST see the address of the pod that connects to its cluster IP."},
		{ID: "kube-proxy/affinity", Run: affinity, Reference: virtualIPs + "#session-affinity",
			Requirement: "With sessionAffinity ClientIP all connections of a client MUST reach the same endpoint."},
		{ID: "kube-proxy/node-port", Run: nodePort, Reference: serviceDocs + "#type-nodeport",
			Requirement: "A node port MUST lead to the Service's endpoints on the address of every node."},
		{ID: "kube-proxy/kubernetes", Run: kubernetesService, Reference: apiFromPod,
			Requirement: "Pods MUST reach the API server at the address and port that their environment names."},
	}
	dns := []suite.Case{
		{ID: "dns/service", Run: dnsService, Reference: dnsDocs + "#services",
			Requirement: "The name of a Service MUST resolve to its cluster IP: short, with its namespace, and in full."},
		{ID: "dns/headless", Run: dnsHeadless, Reference: dnsDocs + "#services",
			Requirement: "The name of a headless Service MUST resolve to the addresses of its ready pods."},
		{ID: "dns/hostname", Run: dnsHostname, Reference: dnsDocs + "#pod-s-hostname-and-subdomain-fields",
			Requirement: "A pod with hostname and subdomain MUST have a name below that of its headless Service."},
		{ID: "dns/unknown", Run: dnsUnknown, Reference: dnsDocs,
			Requirement: "A name of the cluster that is no Service's MUST NOT resolve."},
	}
	for i := range proxy {
		proxy[i].Component, proxy[i].Needs = suite.KubeProxy, []suite.Feature{suite.ServiceNetwork}
	}
	for i := range dns {
		dns[i].Component, dns[i].Needs = suite.DNS, []suite.Feature{suite.ServiceNetwork, suite.ClusterDNS}
	}
	all := append(proxy, dns...)
	for i := range all {
		all[i].Since = "0.2"
		all[i].Needs = append(all[i].Needs, suite.HasScheduler, suite.HasControllers, suite.RunsPods, suite.PodNetwork)
	}
	return all
}

// server returns a pod that answers HTTP on 8080 with its name.
func server(t *suite.T, name, app string) *corev1.Pod {
	p := t.Pod(name, "serve", "--http=:8080")
	p.Labels = map[string]string{"app": app}
	p.Spec.RestartPolicy = corev1.RestartPolicyAlways
	return p
}

// client creates a pod that does nothing by itself.
func client(ctx context.Context, t *suite.T, name string) {
	t.CreatePod(ctx, t.Pod(name, "sleep", "forever"))
}

// ready waits for pods and returns their addresses by name.
func ready(ctx context.Context, t *suite.T, names ...string) map[string]string {
	ips := map[string]string{}
	for _, name := range names {
		p := suite.WaitFor(ctx, t, "pod "+name+" ready", t.GetPod(name), Satisfy(isReady))
		ips[name] = p.Status.PodIP
	}
	return ips
}

func isReady(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// expose creates a Service of the pods of an app, at port 80.
func expose(ctx context.Context, t *suite.T, app string, change ...func(*corev1.ServiceSpec)) *corev1.Service {
	spec := corev1.ServiceSpec{
		Selector: map[string]string{"app": app},
		Ports:    []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)}},
	}
	for _, f := range change {
		f(&spec)
	}
	created, err := t.Client.CoreV1().Services(t.Namespace).
		Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: app}, Spec: spec}, metav1.CreateOptions{})
	t.Must(err, "create Service %s", app)
	return created
}

// get returns a function that asks an address from a pod.
func get(t *suite.T, pod, url string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		out, _, err := t.Exec(ctx, pod, "", "testimage", "get", url, "--timeout=2s")
		return strings.TrimSpace(out), err
	}
}

// resolve returns a function that asks for the addresses of a name from a pod.
func resolve(t *suite.T, pod, name string) func(context.Context) ([]string, error) {
	return func(ctx context.Context) ([]string, error) {
		out, _, err := t.Exec(ctx, pod, "", "testimage", "resolve", name)
		return strings.Fields(out), err
	}
}
