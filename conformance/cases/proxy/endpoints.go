package proxy

import (
	"context"
	"fmt"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/conformance/cases/traffic"
	"quintet.dev/quintet/conformance/suite"
)

func readyOnly(ctx context.Context, t *suite.T) {
	service := traffic.Expose(ctx, t, "web")
	traffic.Start(ctx, t,
		traffic.Client(t, "client"), traffic.Server(t, "steady", "web"), traffic.Server(t, "moody", "web"))
	attempt := traffic.Get(t, "client", service.Spec.ClusterIP, 80)
	traffic.Answers(ctx, t, "an answer of the pod while it is ready", attempt, Equal("moody"))
	setHealth(ctx, t, "moody", "false")
	suite.WaitFor(ctx, t, "answers of the ready pod alone", traffic.Names(8, attempt), Equal([]string{"steady"}))
	setHealth(ctx, t, "moody", "true")
	traffic.Answers(ctx, t, "an answer of the pod that is ready again", attempt, Equal("moody"))
}

// setHealth decides what a server's readiness probe finds.
func setHealth(ctx context.Context, t *suite.T, pod, ok string) {
	_, _, err := t.Exec(ctx, pod, "", "testimage", "get", "http://127.0.0.1:8080/healthz/set?ok="+ok)
	t.Must(err, "set the health of pod %s to %s", pod, ok)
}

func publishNotReady(ctx context.Context, t *suite.T) {
	service := traffic.Expose(ctx, t, "web", func(s *corev1.ServiceSpec) { s.PublishNotReadyAddresses = true })
	t.CreatePod(ctx, traffic.Unready(traffic.Server(t, "server", "web")))
	traffic.Start(ctx, t, traffic.Client(t, "client"))
	traffic.WaitRunning(ctx, t, "server")
	traffic.Answers(ctx, t, "an answer of the unready pod", traffic.Get(t, "client", service.Spec.ClusterIP, 80),
		Equal("server"))
}

// terminating keeps a deleted pod serving in its preStop hook.
func terminating(ctx context.Context, t *suite.T) {
	service := traffic.Expose(ctx, t, "web")
	server := traffic.Server(t, "server", "web")
	server.Spec.TerminationGracePeriodSeconds = ptr.To[int64](60)
	server.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{
		Exec: &corev1.ExecAction{Command: []string{"testimage", "sleep", "forever"}},
	}}
	traffic.Start(ctx, t, traffic.Client(t, "client"), server)
	attempt := traffic.Get(t, "client", service.Spec.ClusterIP, 80)
	traffic.Answers(ctx, t, "an answer", attempt, Equal("server"))
	pods := t.Client.CoreV1().Pods(t.Namespace)
	t.Cleanup(func(ctx context.Context) {
		_ = pods.Delete(ctx, "server", metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
	})
	t.Must(pods.Delete(ctx, "server", metav1.DeleteOptions{}), "delete the pod")
	endpoints := func(ctx context.Context) ([]discoveryv1.Endpoint, error) {
		list, err := t.Client.DiscoveryV1().EndpointSlices(t.Namespace).
			List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=web"})
		if err != nil || len(list.Items) == 0 {
			return nil, err
		}
		return list.Items[0].Endpoints, nil
	}
	suite.WaitFor(ctx, t, "an endpoint that terminates and serves", endpoints, ConsistOf(HaveField("Conditions", And(
		HaveField("Ready", HaveValue(BeFalse())), HaveField("Serving", HaveValue(BeTrue())),
		HaveField("Terminating", HaveValue(BeTrue()))))))
	// What kube-proxy makes of it shows a moment later, and stays.
	suite.WaitFor(ctx, t, "answers of the terminating pod", traffic.Names(8, attempt), Equal([]string{"server"}))
	traffic.Start(ctx, t, traffic.Server(t, "successor", "web"))
	suite.WaitFor(ctx, t, "answers of the successor alone", traffic.Names(8, attempt), Equal([]string{"successor"}))
}

func manualEndpoints(ctx context.Context, t *suite.T) {
	service := traffic.Expose(ctx, t, "manual", traffic.WithoutSelector)
	pods := traffic.Start(ctx, t, traffic.Client(t, "client"), traffic.Server(t, "server", "web"))
	traffic.AddSlice(ctx, t, "manual", pods["server"].Status.PodIP, discoveryv1.Endpoint{})
	attempt := traffic.Get(t, "client", service.Spec.ClusterIP, 80)
	traffic.Answers(ctx, t, "an answer of the endpoint that was written", attempt, Equal("server"))
	err := t.Client.DiscoveryV1().EndpointSlices(t.Namespace).Delete(ctx, "manual", metav1.DeleteOptions{})
	t.Must(err, "delete the EndpointSlice")
	traffic.Blocked(ctx, t, "no answer without the EndpointSlice", attempt)
}

// nodeServerPort is one that nodes are unlikely to use, and no node port by default.
const nodeServerPort int32 = 28473

// nodeServer is a server on the network of its node. The container's port keeps it off nodes where it is taken.
func nodeServer(t *suite.T, name, app string) *corev1.Pod {
	p := traffic.OnHost(traffic.Server(t, name, app))
	main := &p.Spec.Containers[0]
	main.Args = []string{"serve", "--text=" + name, fmt.Sprintf("--http=:%d", nodeServerPort)}
	main.Ports = []corev1.ContainerPort{{Name: "web", ContainerPort: nodeServerPort}}
	main.ReadinessProbe.HTTPGet.Port = intstr.FromInt32(nodeServerPort)
	return p
}

func nodeEndpoint(ctx context.Context, t *suite.T) {
	service := traffic.Expose(ctx, t, "web", toNamedPort)
	pods := []*corev1.Pod{nodeServer(t, "server", "web")}
	nodes := traffic.Nodes(ctx, t)
	for i := range min(2, len(nodes)) {
		pods = append(pods, traffic.OnNode(traffic.Client(t, fmt.Sprintf("client-%d", i)), nodes[i].Name))
	}
	traffic.Start(ctx, t, pods...)
	for i := range min(2, len(nodes)) {
		traffic.Answers(ctx, t, "an answer to a pod of node "+nodes[i].Name,
			traffic.Get(t, fmt.Sprintf("client-%d", i), service.Spec.ClusterIP, 80), Equal("server"))
	}
}

func headless(ctx context.Context, t *suite.T) {
	service := traffic.Expose(ctx, t, "web", traffic.Headless)
	t.Expect(service.Spec.ClusterIP).To(Equal(corev1.ClusterIPNone))
	ip := traffic.Start(ctx, t, traffic.Client(t, "client"), traffic.Server(t, "server", "web"))["server"].Status.PodIP
	traffic.Answers(ctx, t, "an answer at the pod's port", traffic.Get(t, "client", ip, traffic.HTTPPort),
		Equal("server"))
	traffic.Blocked(ctx, t, "no answer at the Service's port", traffic.Get(t, "client", ip, 80))
}

func externalName(ctx context.Context, t *suite.T) {
	service := traffic.Expose(ctx, t, "web")
	traffic.Start(ctx, t, traffic.Client(t, "client"), traffic.Server(t, "server", "web"))
	attempt := traffic.Get(t, "client", service.Spec.ClusterIP, 80)
	traffic.Answers(ctx, t, "an answer", attempt, Equal("server"))
	changed := traffic.PatchService(ctx, t, "web", `{"spec":{"type":"ExternalName","externalName":"example.com",`+
		`"clusterIP":null,"clusterIPs":null,"ipFamilies":null,"ipFamilyPolicy":null,"internalTrafficPolicy":null}}`)
	t.Expect(changed.Spec.ClusterIP).To(BeEmpty(), "the cluster IP of an ExternalName")
	traffic.Blocked(ctx, t, "no answer at the former cluster IP", attempt)
}

// sourcePort makes attempts one flow.
const sourcePort = "--from=:40000"

func udpFollows(ctx context.Context, t *suite.T) {
	service := traffic.Expose(ctx, t, "web", traffic.UDP)
	traffic.Start(ctx, t, traffic.Client(t, "client"), traffic.Server(t, "first", "web"))
	attempt := traffic.Datagram(t, "client", service.Spec.ClusterIP, 80, sourcePort)
	traffic.Answers(ctx, t, "an answer of the first pod", attempt, HavePrefix("first "))
	traffic.Start(ctx, t, traffic.Server(t, "second", "web"))
	traffic.Remove(ctx, t, "first")
	traffic.Answers(ctx, t, "an answer of the second pod in the same flow", attempt, HavePrefix("second "))
}

func udpLateEndpoint(ctx context.Context, t *suite.T) {
	service := traffic.Expose(ctx, t, "web", traffic.UDP)
	traffic.Start(ctx, t, traffic.Client(t, "client"))
	attempt := traffic.Datagram(t, "client", service.Spec.ClusterIP, 80, sourcePort)
	traffic.Blocked(ctx, t, "no answer without endpoint", attempt)
	traffic.Start(ctx, t, traffic.Server(t, "server", "web"))
	traffic.Answers(ctx, t, "an answer in the same flow", attempt, HavePrefix("server "))
}

func localOnly(s *corev1.ServiceSpec) {
	s.InternalTrafficPolicy = ptr.To(corev1.ServiceInternalTrafficPolicyLocal)
}

func internalLocal(ctx context.Context, t *suite.T) {
	service := traffic.Expose(ctx, t, "web", localOnly)
	nodes := traffic.Nodes(ctx, t)
	traffic.Start(ctx, t,
		traffic.OnNode(traffic.Client(t, "client-0"), nodes[0].Name),
		traffic.OnNode(traffic.Client(t, "client-1"), nodes[1].Name),
		traffic.OnNode(traffic.Server(t, "server-0", "web"), nodes[0].Name),
		traffic.OnNode(traffic.Server(t, "server-1", "web"), nodes[1].Name))
	for client, server := range map[string]string{"client-0": "server-0", "client-1": "server-1"} {
		attempt := traffic.Get(t, client, service.Spec.ClusterIP, 80)
		suite.WaitFor(ctx, t, "answers to "+client+" of its node alone", traffic.Names(8, attempt),
			Equal([]string{server}))
	}
}

func internalLocalNone(ctx context.Context, t *suite.T) {
	service := traffic.Expose(ctx, t, "web", localOnly)
	nodes := traffic.Nodes(ctx, t)
	traffic.Start(ctx, t,
		traffic.OnNode(traffic.Client(t, "near"), nodes[0].Name),
		traffic.OnNode(traffic.Client(t, "far"), nodes[1].Name),
		traffic.OnNode(traffic.Server(t, "server", "web"), nodes[0].Name))
	traffic.Answers(ctx, t, "an answer on the endpoint's node", traffic.Get(t, "near", service.Spec.ClusterIP, 80),
		Equal("server"))
	traffic.Blocked(ctx, t, "no answer on the other node", traffic.Get(t, "far", service.Spec.ClusterIP, 80))
	traffic.PatchService(ctx, t, "web", `{"spec":{"internalTrafficPolicy":"Cluster"}}`)
	traffic.Answers(ctx, t, "an answer on the other node without the policy",
		traffic.Get(t, "far", service.Spec.ClusterIP, 80), Equal("server"))
}
