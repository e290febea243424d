package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/cluster"
)

// noticed bounds how long a lost node serves: the grace period of impatient controllers, and time to act on a busy
// machine.
const noticed = grace + 12*time.Second

// Whichever way a node is lost, its endpoints leave their Services once it was silent for the grace period, and the
// others serve all the time, those of cluster DNS among them.
func TestServicesSurviveALostNode(t *testing.T) {
	w := start(t, cluster.WithNodes(2), impatient())
	w.createDaemonSet("web")
	w.waitReady("web", 2)
	w.expose("web")
	w.createPodOn(w.Node(1), "client")
	w.waitReady("client", 1)
	w.Eventually(w.servingNodes(space, "web")).Should(HaveLen(2))
	w.Eventually(w.servingNodes(metav1.NamespaceSystem, "kube-dns")).Should(HaveLen(2), "each node serves cluster DNS")

	lost := w.Node(2)
	w.must(lost.Pause(t.Context()), "freeze the node")
	w.expectSurvivorServes("the node was frozen")
	w.must(lost.Unpause(t.Context()), "let the node go on")
	w.Eventually(w.servingNodes(space, "web")).Should(HaveLen(2), "the node came back")
	w.Eventually(w.servingNodes(metav1.NamespaceSystem, "kube-dns")).Should(HaveLen(2), "the node came back")

	// Pods are marked as not ready when their node becomes not ready: it must have been ready before.
	w.must(w.WaitNodes(t.Context()), "wait for the node's status")
	w.must(lost.Kill(t.Context()), "kill the node")
	w.expectSurvivorServes("the node was killed")
}

// expectSurvivorServes expects the endpoints of the second node to leave in time, and that the first one's answer,
// before with luck and after always.
func (w *world) expectSurvivorServes(why string) {
	w.t.Helper()
	service, err := w.client.CoreV1().Services(space).Get(w.t.Context(), "web", metav1.GetOptions{})
	w.must(err, "get the Service")
	request := []string{"get", "http://" + service.Spec.ClusterIP, "--timeout=1s"}
	once, began, answered := w.inPod("client", request...), time.Now(), 0
	w.Eventually(func() ([]string, error) {
		if _, err := once(); err == nil {
			answered++
		}
		return w.servingNodes(space, "web")()
	}).WithTimeout(noticed).Should(ConsistOf(w.nodeName("node-1")), why)
	w.t.Logf("%s: its endpoints left after %s, meanwhile %d requests were answered", why, time.Since(began), answered)
	w.Eventually(w.inPod("client", repeat(request, 20)...)).Should(HavePrefix("web-"), why)

	w.Eventually(w.servingNodes(metav1.NamespaceSystem, "kube-dns")).Should(ConsistOf(w.nodeName("node-1")), why)
	resolve := []string{"resolve", "web.default.svc.cluster.local"}
	w.Eventually(w.inPod("client", repeat(resolve, 20)...)).Should(HavePrefix(service.Spec.ClusterIP+"\n"), why)
}

// repeat makes of a command of the test image one that runs it n times, up to the first failure.
func repeat(command []string, n int) []string {
	return strings.Fields(strings.Repeat(strings.Join(command, " ")+" then ", n-1) + strings.Join(command, " "))
}

// servingNodes returns a function that lists the nodes with ready endpoints of a Service.
func (w *world) servingNodes(namespace, service string) func() ([]string, error) {
	return func() ([]string, error) {
		list, err := w.client.DiscoveryV1().EndpointSlices(namespace).List(w.t.Context(), metav1.ListOptions{
			LabelSelector: discoveryv1.LabelServiceName + "=" + service,
		})
		if err != nil {
			return nil, err
		}
		var nodes []string
		for _, slice := range list.Items {
			for _, e := range slice.Endpoints {
				if e.Conditions.Ready != nil && *e.Conditions.Ready && e.NodeName != nil {
					nodes = append(nodes, *e.NodeName)
				}
			}
		}
		slices.Sort(nodes)
		return slices.Compact(nodes), nil
	}
}

// createDaemonSet runs a pod on each node.
func (w *world) createDaemonSet(name string) {
	w.t.Helper()
	labels := map[string]string{"app": name}
	_, err := w.client.AppsV1().DaemonSets(space).Create(w.t.Context(), &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: podSpec()}},
	}, metav1.CreateOptions{})
	w.must(err, "create daemon set %s", name)
}

// createPodOn creates a pod that needs no scheduler.
func (w *world) createPodOn(node *cluster.Member, name string) {
	w.t.Helper()
	spec := podSpec()
	spec.NodeName = w.nodeName(node.Name())
	_, err := w.client.CoreV1().Pods(space).Create(w.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}}, Spec: spec,
	}, metav1.CreateOptions{})
	w.must(err, "create pod %s", name)
}
