package proxy

import (
	"context"
	"fmt"
	"net"
	"strings"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/conformance/cases/traffic"
	"quintet.dev/quintet/conformance/suite"
)

// clusterIP has the client on the first server's node.
func clusterIP(ctx context.Context, t *suite.T) {
	nodes := traffic.Nodes(ctx, t)
	service := traffic.Expose(ctx, t, "web")
	pods := []*corev1.Pod{traffic.OnNode(traffic.Client(t, "client"), nodes[0].Name)}
	var servers []string
	for i := range min(2, len(nodes)) {
		name := fmt.Sprintf("server-%d", i)
		servers = append(servers, name)
		pods = append(pods, traffic.OnNode(traffic.Server(t, name, "web"), nodes[i].Name))
	}
	traffic.Start(ctx, t, pods...)
	for _, name := range servers {
		traffic.Answers(ctx, t, "an answer of "+name, traffic.Get(t, "client", service.Spec.ClusterIP, 80), Equal(name))
	}
}

func hairpin(ctx context.Context, t *suite.T) {
	service := traffic.Expose(ctx, t, "alone")
	traffic.Start(ctx, t, traffic.Server(t, "alone", "alone"))
	traffic.Answers(ctx, t, "the pod's own answer", traffic.Get(t, "alone", service.Spec.ClusterIP, 80), Equal("alone"))
}

func noEndpoint(ctx context.Context, t *suite.T) {
	service := traffic.Expose(ctx, t, "nothing")
	traffic.Start(ctx, t, traffic.Client(t, "client"))
	suite.WaitFor(ctx, t, "a refusal", traffic.Get(t, "client", service.Spec.ClusterIP, 80),
		traffic.Fails(ContainSubstring("refused")))
}

func followsEndpoints(ctx context.Context, t *suite.T) {
	service := traffic.Expose(ctx, t, "web")
	traffic.Start(ctx, t, traffic.Client(t, "client"), traffic.Server(t, "first", "web"))
	attempt := traffic.Get(t, "client", service.Spec.ClusterIP, 80)
	traffic.Answers(ctx, t, "an answer of the first pod", attempt, Equal("first"))
	traffic.Start(ctx, t, traffic.Server(t, "second", "web"))
	traffic.Answers(ctx, t, "an answer of the second pod", attempt, Equal("second"))
	traffic.Remove(ctx, t, "first")
	suite.WaitFor(ctx, t, "answers of the second pod alone", traffic.Names(8, attempt), Equal([]string{"second"}))
}

func clientAddress(ctx context.Context, t *suite.T) {
	service := traffic.Expose(ctx, t, "web")
	nodes := traffic.Nodes(ctx, t)
	pods := []*corev1.Pod{traffic.OnNode(traffic.Server(t, "server", "web"), nodes[0].Name)}
	var clients []string
	for i := range min(2, len(nodes)) {
		clients = append(clients, fmt.Sprintf("client-%d", i))
		pods = append(pods, traffic.OnNode(traffic.Client(t, clients[i]), nodes[i].Name))
	}
	started := traffic.Start(ctx, t, pods...)
	for _, client := range clients {
		traffic.Answers(ctx, t, "the address of "+client, traffic.Remote(t, client, service.Spec.ClusterIP, 80),
			traffic.From(started[client].Status.PodIP))
	}
}

func withAffinity(s *corev1.ServiceSpec) { s.SessionAffinity = corev1.ServiceAffinityClientIP }

func affinity(ctx context.Context, t *suite.T) {
	service := traffic.Expose(ctx, t, "web", withAffinity)
	traffic.Start(ctx, t, traffic.Client(t, "client"), traffic.Server(t, "server-0", "web"),
		traffic.Server(t, "server-1", "web"), traffic.Server(t, "server-2", "web"))
	attempt := traffic.Get(t, "client", service.Spec.ClusterIP, 80)
	first := traffic.Answers(ctx, t, "an answer", attempt, HavePrefix("server-"))
	traffic.Repeat(ctx, t, "an answer of the same pod", 10, attempt, traffic.Succeeds(Equal(first.Text)))
}

func affinityOff(ctx context.Context, t *suite.T) {
	service := traffic.Expose(ctx, t, "web", withAffinity)
	traffic.Start(ctx, t,
		traffic.Client(t, "client"), traffic.Server(t, "server-0", "web"), traffic.Server(t, "server-1", "web"))
	attempt := traffic.Get(t, "client", service.Spec.ClusterIP, 80)
	first := traffic.Answers(ctx, t, "an answer", attempt, HavePrefix("server-"))
	traffic.Repeat(ctx, t, "an answer of the same pod", 4, attempt, traffic.Succeeds(Equal(first.Text)))
	traffic.PatchService(ctx, t, "web", `{"spec":{"sessionAffinity":"None","sessionAffinityConfig":null}}`)
	other := strings.NewReplacer("server-0", "server-1", "server-1", "server-0").Replace(first.Text)
	traffic.Answers(ctx, t, "an answer of the other pod", attempt, Equal(other))
}

func nodeClient(ctx context.Context, t *suite.T) {
	service := traffic.Expose(ctx, t, "web")
	pods := []*corev1.Pod{traffic.Server(t, "server", "web")}
	nodes := traffic.Nodes(ctx, t)
	for i, node := range nodes {
		pods = append(pods, traffic.OnHost(traffic.OnNode(traffic.Client(t, fmt.Sprintf("client-%d", i)), node.Name)))
	}
	traffic.Start(ctx, t, pods...)
	for i, node := range nodes {
		traffic.Answers(ctx, t, "an answer on node "+node.Name,
			traffic.Get(t, fmt.Sprintf("client-%d", i), service.Spec.ClusterIP, 80), Equal("server"))
	}
}

// kubernetes requests a path that every account may read.
func kubernetes(ctx context.Context, t *suite.T) {
	client := traffic.Client(t, "client")
	client.Spec.AutomountServiceAccountToken = ptr.To(true)
	traffic.Start(ctx, t, client)
	out, _, err := t.Exec(ctx, "client", "", "testimage", "env", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT")
	t.Must(err, "read the environment")
	address := strings.Fields(out)
	t.Expect(address).To(HaveLen(2), "host and port of the API server")
	url := "https://" + net.JoinHostPort(address[0], address[1]) + "/api"
	const account = "/var/run/secrets/kubernetes.io/serviceaccount/"
	traffic.Answers(ctx, t, "the versions of the API",
		traffic.Try(t, "client", "get", url, "--ca="+account+"ca.crt", "--token="+account+"token"),
		ContainSubstring("APIVersions"))
}
