package services

import (
	"context"
	"fmt"
	"net"
	"strings"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/conformance/suite"
)

// url is an address of a Service or endpoint.
func url(host string, port int32) string {
	return "http://" + net.JoinHostPort(host, fmt.Sprint(port)) + "/"
}

// onNode binds a pod to a node that runs pods.
func onNode(p *corev1.Pod, node string) *corev1.Pod {
	p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchFields: []corev1.NodeSelectorRequirement{{
				Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{node},
			}},
		}}},
	}}
	return p
}

func clusterIP(ctx context.Context, t *suite.T) {
	nodes, err := t.RunningNodes(ctx)
	t.Must(err, "list the nodes")
	t.CreatePod(ctx, onNode(t.Pod("client", "sleep", "forever"), nodes[0].Name))
	names := []string{}
	for i := range min(2, len(nodes)) { // the first is on the client's node
		name := fmt.Sprintf("server-%d", i)
		names = append(names, name)
		t.CreatePod(ctx, onNode(server(t, name, "web"), nodes[i].Name))
	}
	service := expose(ctx, t, "web")
	ready(ctx, t, append(names, "client")...)
	for _, name := range names {
		suite.WaitFor(ctx, t, "an answer of "+name, get(t, "client", url(service.Spec.ClusterIP, 80)), Equal(name))
	}
}

func hairpin(ctx context.Context, t *suite.T) {
	t.CreatePod(ctx, server(t, "alone", "alone"))
	service := expose(ctx, t, "alone")
	ready(ctx, t, "alone")
	suite.WaitFor(ctx, t, "the pod's own answer", get(t, "alone", url(service.Spec.ClusterIP, 80)), Equal("alone"))
}

func noEndpoint(ctx context.Context, t *suite.T) {
	client(ctx, t, "client")
	service := expose(ctx, t, "nothing")
	ready(ctx, t, "client")
	refused := func(ctx context.Context) (string, error) {
		_, stderr, err := t.Exec(ctx, "client", "", "testimage", "get", url(service.Spec.ClusterIP, 80), "--timeout=2s")
		if err == nil {
			return "an answer", nil
		}
		return stderr, nil
	}
	suite.WaitFor(ctx, t, "a refusal", refused, ContainSubstring("refused"))
}

func followsEndpoints(ctx context.Context, t *suite.T) {
	client(ctx, t, "client")
	t.CreatePod(ctx, server(t, "first", "web"))
	service := expose(ctx, t, "web")
	ready(ctx, t, "client", "first")
	answer := get(t, "client", url(service.Spec.ClusterIP, 80))
	suite.WaitFor(ctx, t, "an answer of the first pod", answer, Equal("first"))
	t.CreatePod(ctx, server(t, "second", "web"))
	ready(ctx, t, "second")
	suite.WaitFor(ctx, t, "an answer of the second pod", answer, Equal("second"))
	t.Must(t.Client.CoreV1().Pods(t.Namespace).Delete(ctx, "first", metav1.DeleteOptions{}), "delete the first pod")
	gone := func(ctx context.Context) (bool, error) {
		pods, err := t.ListPods("app=web")(ctx)
		return len(pods) == 1, err
	}
	suite.WaitFor(ctx, t, "the end of the first pod", gone, BeTrue())
	suite.WaitFor(ctx, t, "answers of the second pod alone", func(ctx context.Context) (string, error) {
		var all []string
		for range 8 {
			name, err := answer(ctx)
			if err != nil {
				return "", err
			}
			all = append(all, name)
		}
		return strings.Join(all, " "), nil
	}, Equal(strings.TrimSpace(strings.Repeat("second ", 8))))
}

func clientAddress(ctx context.Context, t *suite.T) {
	client(ctx, t, "client")
	t.CreatePod(ctx, server(t, "server", "web"))
	service := expose(ctx, t, "web")
	ip := ready(ctx, t, "client", "server")["client"]
	suite.WaitFor(ctx, t, "the client's address", get(t, "client", url(service.Spec.ClusterIP, 80)+"remote"), HavePrefix(ip+":"))
}

func affinity(ctx context.Context, t *suite.T) {
	client(ctx, t, "client")
	names := []string{"server-0", "server-1", "server-2"}
	for _, name := range names {
		t.CreatePod(ctx, server(t, name, "web"))
	}
	service := expose(ctx, t, "web", func(s *corev1.ServiceSpec) { s.SessionAffinity = corev1.ServiceAffinityClientIP })
	ready(ctx, t, append(names, "client")...)
	answer := get(t, "client", url(service.Spec.ClusterIP, 80))
	first := suite.WaitFor(ctx, t, "an answer", answer, HavePrefix("server-"))
	for range 10 {
		name, err := answer(ctx)
		t.Must(err, "ask again")
		t.Expect(name).To(Equal(first), "the endpoint of the same client")
	}
}

func nodePort(ctx context.Context, t *suite.T) {
	client(ctx, t, "client")
	t.CreatePod(ctx, server(t, "server", "web"))
	service := expose(ctx, t, "web", func(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeNodePort })
	ready(ctx, t, "client", "server")
	nodes, err := t.RunningNodes(ctx)
	t.Must(err, "list the nodes")
	for _, node := range nodes {
		for _, address := range node.Status.Addresses {
			if address.Type == corev1.NodeInternalIP {
				at := url(address.Address, service.Spec.Ports[0].NodePort)
				suite.WaitFor(ctx, t, "an answer at node "+node.Name, get(t, "client", at), Equal("server"))
			}
		}
	}
}

func kubernetesService(ctx context.Context, t *suite.T) {
	client(ctx, t, "client")
	ready(ctx, t, "client")
	out, _, err := t.Exec(ctx, "client", "", "testimage", "env", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT")
	t.Must(err, "read the environment")
	address := strings.Fields(out)
	t.Expect(address).To(HaveLen(2), "host and port of the API server")
	connect := func(ctx context.Context) (string, error) {
		out, _, err := t.Exec(ctx, "client", "", "testimage", "connect", net.JoinHostPort(address[0], address[1]), "--timeout=2s")
		return out, err
	}
	suite.WaitFor(ctx, t, "a connection to the API server", connect, ContainSubstring("connected"))
}
