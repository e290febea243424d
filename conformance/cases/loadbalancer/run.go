package loadbalancer

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/conformance/cases/traffic"
	"quintet.dev/quintet/conformance/suite"
)

func fromInside(ctx context.Context, t *suite.T) {
	traffic.Expose(ctx, t, "web", balanced)
	nodes := traffic.Nodes(ctx, t)
	pods := []*corev1.Pod{traffic.OnNode(traffic.Server(t, "server", "web"), nodes[0].Name)}
	var clients []string
	for i := range min(2, len(nodes)) {
		inPod, onHost := fmt.Sprintf("pod-%d", i), fmt.Sprintf("host-%d", i)
		clients = append(clients, inPod, onHost)
		pods = append(pods, traffic.OnNode(traffic.Client(t, inPod), nodes[i].Name),
			traffic.OnNode(traffic.OnHost(traffic.Client(t, onHost)), nodes[i].Name))
	}
	traffic.Start(ctx, t, pods...)
	address := waitAddress(ctx, t, "web")
	for _, client := range clients {
		traffic.Answers(ctx, t, "an answer to "+client, traffic.Get(t, client, address, 80), Equal("server"))
	}
}

// outsideURL is the URL of a load balancer for the suite itself.
func outsideURL(address, path string) string { return "http://" + traffic.HostPort(address, 80) + path }

// outsideGet is an HTTP request of the suite itself, each on a connection of its own, and the address that the last
// connection was made from.
func outsideGet(url string) (local func() string, attempt traffic.Attempt) {
	var source string
	dialer := net.Dialer{Timeout: time.Second}
	client := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, address)
			if err == nil {
				source = conn.LocalAddr().String()
			}
			return conn, err
		},
	}}
	return func() string { return source }, func(ctx context.Context) (traffic.Result, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return traffic.Result{}, err
		}
		response, err := client.Do(request)
		if err != nil {
			return traffic.Result{Text: err.Error()}, nil
		}
		defer func() { _ = response.Body.Close() }()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			return traffic.Result{Text: err.Error()}, nil
		}
		return traffic.Result{OK: response.StatusCode == http.StatusOK, Text: strings.TrimSpace(string(body))}, nil
	}
}

func fromOutside(ctx context.Context, t *suite.T) {
	traffic.Expose(ctx, t, "web", balanced)
	nodes := traffic.Nodes(ctx, t)
	var pods []*corev1.Pod
	for i := range min(2, len(nodes)) {
		pods = append(pods, traffic.OnNode(traffic.Server(t, fmt.Sprintf("server-%d", i), "web"), nodes[i].Name))
	}
	started := traffic.Start(ctx, t, pods...)
	_, attempt := outsideGet(outsideURL(waitAddress(ctx, t, "web"), "/"))
	for name := range started {
		traffic.Answers(ctx, t, "an answer of "+name, attempt, Equal(name))
	}
}

// outsideLocal moves the only endpoint from one node to another.
func outsideLocal(ctx context.Context, t *suite.T) {
	traffic.Expose(ctx, t, "web", balanced, func(s *corev1.ServiceSpec) {
		s.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	})
	address := waitAddress(ctx, t, "web")
	_, attempt := outsideGet(outsideURL(address, "/"))
	local, source := outsideGet(outsideURL(address, "/remote"))
	seen := func(ctx context.Context) (bool, error) {
		result, err := source(ctx)
		return result.OK && result.Text == local(), err
	}
	for _, node := range traffic.Nodes(ctx, t)[:2] {
		traffic.Start(ctx, t, traffic.OnNode(traffic.Server(t, "server", "web"), node.Name))
		suite.WaitFor(ctx, t, "answers by way of "+node.Name+" alone", traffic.Names(8, attempt),
			Equal([]string{"server"}))
		suite.WaitFor(ctx, t, "the client's address as the endpoint on "+node.Name+" sees it", seen, BeTrue())
		traffic.Remove(ctx, t, "server")
		traffic.Blocked(ctx, t, "no answer without an endpoint", attempt)
	}
}

func ownAddress(ctx context.Context, t *suite.T) {
	names := []string{"first", "second"}
	pods := []*corev1.Pod{traffic.Client(t, "client")}
	for _, name := range names {
		traffic.Expose(ctx, t, name, balanced)
		pods = append(pods, traffic.Server(t, name, name))
	}
	traffic.Start(ctx, t, pods...)
	for _, name := range names {
		attempt := traffic.Get(t, "client", waitAddress(ctx, t, name), 80)
		traffic.Answers(ctx, t, "an answer at the address of "+name, attempt, Equal(name))
		traffic.Repeat(ctx, t, "an answer of "+name+" alone", 4, attempt, traffic.Succeeds(Equal(name)))
	}
}

func portChange(ctx context.Context, t *suite.T) {
	address := expose(ctx, t)
	traffic.PatchService(ctx, t, "web",
		`{"spec":{"ports":[{"name":"http","port":90,"protocol":"TCP","targetPort":8080}]}}`)
	traffic.Answers(ctx, t, "an answer at the new port", traffic.Get(t, "client", address, 90), Equal("server"))
	traffic.Blocked(ctx, t, "no answer at the old port", traffic.Get(t, "client", address, 80))
	t.Expect(waitAddress(ctx, t, "web")).To(Equal(address), "the address after the change")
}

// otherClass waits for the address of a later Service: the earlier one has been passed over by then.
func otherClass(ctx context.Context, t *suite.T) {
	traffic.Expose(ctx, t, "foreign", balanced, func(s *corev1.ServiceSpec) {
		s.LoadBalancerClass = ptr.To("conformance.quintet.dev/none")
	})
	traffic.Expose(ctx, t, "web", balanced)
	waitAddress(ctx, t, "web")
	suite.Never(ctx, t, "an address of the other class", getService(t, "foreign"),
		WithTransform(addressOf, Not(BeEmpty())))
}

func typeChange(ctx context.Context, t *suite.T) {
	address := expose(ctx, t)
	traffic.PatchService(ctx, t, "web", `{"spec":{"type":"ClusterIP","externalTrafficPolicy":null,`+
		`"allocateLoadBalancerNodePorts":null,"ports":[{"name":"http","port":80,"protocol":"TCP","targetPort":8080}]}}`)
	suite.WaitFor(ctx, t, "a status without address", getService(t, "web"), WithTransform(addressOf, BeEmpty()))
	traffic.Blocked(ctx, t, "no answer at the former address", traffic.Get(t, "client", address, 80))
}

func finalizer(ctx context.Context, t *suite.T) {
	address := expose(ctx, t)
	service, err := getService(t, "web")(ctx)
	t.Must(err, "get the Service")
	t.Expect(service.Finalizers).To(ContainElement("service.kubernetes.io/load-balancer-cleanup"))
	t.Must(t.Client.CoreV1().Services(t.Namespace).Delete(ctx, "web", metav1.DeleteOptions{}), "delete the Service")
	suite.WaitFor(ctx, t, "the end of the Service", func(ctx context.Context) (bool, error) {
		_, err := getService(t, "web")(ctx)
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	}, BeTrue())
	traffic.Blocked(ctx, t, "no answer at the former address", traffic.Get(t, "client", address, 80))
}
