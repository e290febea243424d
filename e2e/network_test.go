package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"quintet.dev/quintet/cluster"
)

// service changes what expose would create.
func (w *world) service(app string, change func(*corev1.ServiceSpec)) *corev1.Service {
	w.t.Helper()
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: app}, Spec: corev1.ServiceSpec{
		Selector: map[string]string{"app": app},
		Ports:    []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}},
	}}
	change(&s.Spec)
	created, err := w.client.CoreV1().Services(space).Create(w.t.Context(), s, metav1.CreateOptions{})
	w.must(err, "create Service %s", app)
	return created
}

// fetch gets a URL from this machine, by a connection of its own.
func fetch(ctx context.Context, url string) (string, error) {
	client := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

// A Service of type LoadBalancer has an address that this machine reaches, until it is deleted.
func TestLoadBalancer(t *testing.T) {
	w := start(t, cluster.WithNodes(2), impatient())
	w.createDeployment("web", 2)
	w.waitReady("web", 2)
	w.service("web", func(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeLoadBalancer })
	services := w.client.CoreV1().Services(space)
	var address string
	w.Eventually(func(g Gomega) {
		s, err := services.Get(t.Context(), "web", metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(s.Status.LoadBalancer.Ingress).To(HaveLen(1))
		address = s.Status.LoadBalancer.Ingress[0].IP
	}).Should(Succeed())
	answer := func() (string, error) { return fetch(t.Context(), "http://"+net.JoinHostPort(address, "80")) }
	w.Eventually(answer).Should(HavePrefix("web-"), "from this machine to %s", address)
	w.Eventually(w.inPod("web", "get", "http://"+address, "--timeout=2s")).Should(HavePrefix("web-"),
		"from a pod to %s", address)

	w.must(w.Node(2).Kill(t.Context()), "kill node-2")
	w.Eventually(func() error { // both whether the machine is avoided, and that connections get through again and again
		for range 10 {
			if _, err := fetch(t.Context(), "http://"+net.JoinHostPort(address, "80")); err != nil {
				return err
			}
		}
		return nil
	}).Should(Succeed(), "a node is lost")

	w.must(services.Delete(t.Context(), "web", metav1.DeleteOptions{}), "delete the Service")
	w.Eventually(func() bool {
		_, err := services.Get(t.Context(), "web", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	}).Should(BeTrue(), "the load balancer's finalizer was removed")
	w.Eventually(failure(answer)).Should(HaveOccurred(), "the address is free")
}

// failure is the error of an answer.
func failure(answer func() (string, error)) func() error {
	return func() error { _, err := answer(); return err }
}

// A policy takes effect on connections that come after it, and so does its end.
func TestNetworkPolicyUnderTraffic(t *testing.T) {
	w := start(t, cluster.WithNodes(1))
	w.createDeployment("web", 1)
	w.createDeployment("client", 1)
	w.waitReady("web", 1)
	w.waitReady("client", 1)
	w.expose("web")
	reach := w.inPod("client", "get", "http://web", "--timeout=1s")
	w.Eventually(reach).Should(HavePrefix("web-"))

	policies := w.client.NetworkingV1().NetworkPolicies(space)
	create := func(name string, spec networkingv1.NetworkPolicySpec) {
		_, err := policies.Create(t.Context(), &networkingv1.NetworkPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec,
		}, metav1.CreateOptions{})
		w.must(err, "create NetworkPolicy %s", name)
	}
	web := metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	create("default-deny", networkingv1.NetworkPolicySpec{
		PodSelector: web, PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
	})
	w.Eventually(failure(reach)).Should(HaveOccurred(), "all is denied")
	create("allow-clients", networkingv1.NetworkPolicySpec{
		PodSelector: web, Ingress: []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{{
			PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "client"}},
		}}}},
	})
	w.Eventually(reach).Should(HavePrefix("web-"), "the client is allowed")
	w.must(policies.Delete(t.Context(), "allow-clients", metav1.DeleteOptions{}), "delete the policy that allows")
	w.Eventually(failure(reach)).Should(HaveOccurred(), "the client is allowed no more")
	w.Expect(w.waitReady("web", 1)).To(HaveLen(1), "the kubelet's probes pass")
}

// Pods and Services of a cluster of IPv6 have such addresses alone, those of one of both families have both.
func TestIPFamilies(t *testing.T) {
	for family, addresses := range map[cluster.IPFamily]int{cluster.IPv6: 1, cluster.DualStack: 2} {
		t.Run(string(family), func(t *testing.T) {
			w := start(t, cluster.WithNodes(2), cluster.WithIPFamily(family))
			w.createDeployment("web", 2)
			for _, pod := range w.waitReady("web", 2) {
				w.Expect(pod.Status.PodIPs).To(HaveLen(addresses))
			}
			s := w.service("web", func(s *corev1.ServiceSpec) {
				policy := corev1.IPFamilyPolicyPreferDualStack
				s.IPFamilyPolicy = &policy
			})
			w.Expect(s.Spec.ClusterIPs).To(HaveLen(addresses))
			for _, ip := range s.Spec.ClusterIPs {
				url := fmt.Sprintf("'http://%s'", net.JoinHostPort(ip, "80"))
				w.Eventually(w.inPod("web", "get", url, "--timeout=2s")).Should(HavePrefix("web-"), ip)
			}
			w.Eventually(w.inPod("web", "get", "http://web", "--timeout=2s")).Should(HavePrefix("web-"), "by name")
			w.Eventually(w.inPod("web", "connect", "kubernetes.default.svc:443",
				"--timeout=2s")).Should(ContainSubstring("connected"))
		})
	}
}
