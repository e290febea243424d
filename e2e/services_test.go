package e2e

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"quintet.dev/quintet/cluster"
)

// expose creates a Service of the pods of an app.
func (w *world) expose(app string) { w.exposeAs(app, app) }

// exposeAs creates a Service of any name of the pods of an app.
func (w *world) exposeAs(name, app string) {
	w.t.Helper()
	_, err := w.client.CoreV1().Services(space).Create(w.t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": app},
			Ports:    []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}},
		},
	}, metav1.CreateOptions{})
	w.must(err, "create Service %s", name)
}

// onNode runs a command on the first node and returns its output.
func (w *world) onNode(command ...string) string {
	w.t.Helper()
	result, err := w.Node(1).Exec(w.t.Context(), command, nil)
	w.must(err, "%v", command)
	w.Expect(result.Code).To(BeZero(), "%v: %s%s", command, result.Stdout, result.Stderr)
	return strings.TrimSpace(string(result.Stdout))
}

// inPod returns a function that runs the test image's program in the first pod of an app.
func (w *world) inPod(app string, args ...string) func() (string, error) {
	return func() (string, error) {
		pods, err := w.pods(app)()
		if err != nil {
			return "", err
		}
		if len(pods) == 0 {
			return "", fmt.Errorf("%s has no pods", app)
		}
		find := fmt.Sprintf("docker exec $(docker ps --quiet --filter label=io.kubernetes.pod.name=%s "+
			"--filter label=io.kubernetes.container.name=main) testimage %s", pods[0].Name, strings.Join(args, " "))
		result, err := w.Member(pods[0].Spec.NodeName).Exec(w.t.Context(), []string{"sh", "-c", find}, nil)
		if err == nil && result.Code != 0 {
			err = errors.New(string(result.Stderr))
		}
		return string(result.Stdout), err
	}
}

// Rules outlive the proxy that wrote them; rules that another program removes are restored; and a proxy that was killed
// or stopped takes over when it starts again. Meanwhile CoreDNS loads a change of its configuration.
func TestServicesSurviveTheirProxy(t *testing.T) {
	const nodePort = 30080
	published := unusedPort(t)
	w := start(t, cluster.WithNodes(1), cluster.WithPublishedPort(published, nodePort))
	expectReload := w.changeCorefile()
	w.createDeployment("web", 1)
	w.waitReady("web", 1)
	w.service("web", func(s *corev1.ServiceSpec) {
		s.Type = corev1.ServiceTypeNodePort
		s.Ports[0].NodePort = nodePort
	})
	answer := w.inPod("web", "get", "http://web", "--timeout=2s")
	outside := func() (string, error) { return fetch(t.Context(), fmt.Sprintf("http://127.0.0.1:%d", published)) }
	answers := func(after string) {
		t.Helper()
		w.Eventually(answer).Should(HavePrefix("web-"), "by name, %s", after)
		w.Eventually(outside).Should(HavePrefix("web-"), "from this machine, %s", after)
	}
	answers("at first")

	w.onNode("nft", "delete", "table", "ip", "kube-proxy")
	answers("the table was deleted")
	w.onNode("nft", "flush", "table", "ip", "kube-proxy")
	answers("the table was flushed")

	killed := w.onNode("pidof", "kube-proxy")
	w.onNode("kill", "-KILL", killed)
	w.Expect(answer()).To(HavePrefix("web-"), "the proxy was killed")
	w.exposeAs("after-kill", "web")
	w.Eventually(w.inPod("web", "get", "http://after-kill", "--timeout=2s")).Should(HavePrefix("web-"),
		"the proxy's successor works")
	w.Expect(w.onNode("pidof", "kube-proxy")).NotTo(Equal(killed))

	w.onNode("node-init", "stop", "kube-proxy")
	w.Expect(answer()).To(HavePrefix("web-"), "the proxy was stopped")
	w.exposeAs("late", "web")
	w.onNode("node-init", "start", "kube-proxy")
	w.Eventually(w.inPod("web", "get", "http://late", "--timeout=2s")).Should(HavePrefix("web-"),
		"the proxy was started again")
	answers("the proxy was started again")
	expectReload("web")
}

// unusedPort is a TCP port of this machine that nothing listens on. It is below those that Linux gives to connections
// and to listeners that ask for any (ip_local_port_range), which others get meanwhile.
func unusedPort(t *testing.T) int {
	t.Helper()
	for range 100 {
		port := 10000 + rand.N(20000)
		if listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			_ = listener.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}

// Programs in pods, clients outside and their watches go on whichever API server is lost.
func TestClientsSurviveAnyAPIServer(t *testing.T) {
	w := start(t, cluster.WithNodes(1), cluster.WithAPIServers(3))
	w.createDeployment("web", 1)
	w.waitReady("web", 1)
	expectNoEventLost := w.watchWrites()
	for _, server := range w.Component(cluster.APIServer).Members {
		w.must(server.Kill(t.Context()), "kill %s", server.Name())
		w.Eventually(func() error {
			_, err := w.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
			return err
		}).Should(Succeed(), "a client of the kubeconfig after %s was killed", server.Name())
		w.Eventually(w.inPod("web", "connect", "kubernetes.default.svc:443",
			"--timeout=2s")).Should(ContainSubstring("connected"))
		w.must(server.Start(t.Context()), "start %s", server.Name())
		w.must(w.WaitAPI(t.Context()), "wait for the API")
	}
	expectNoEventLost()
}
