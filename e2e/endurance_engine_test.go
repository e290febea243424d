package e2e

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/cluster"
)

// An engine that hangs makes its node not ready; a pod that is deleted meanwhile is ended
// once the engine goes on, and nothing is left of it.
func TestNodeWithAHungEngineComesBack(t *testing.T) {
	w := start(t, cluster.WithNodes(1))
	node := w.Node(1)
	for _, name := range []string{"kept", "deleted"} {
		w.createStayingPod(name)
	}
	before := w.waitReady("kept", 1)[0]
	w.waitReady("deleted", 1)
	w.signalEngine(node, "STOP")
	w.Eventually(w.readyCondition(node)).Should(HaveField("Status", corev1.ConditionFalse), "the engine hangs")
	w.must(w.client.CoreV1().Pods(space).Delete(t.Context(), "deleted", metav1.DeleteOptions{}), "delete a pod meanwhile")
	w.createStayingPod("later") // the taint that evicts goes some seconds after the one that keeps pods away
	w.signalEngine(node, "CONT")
	w.Eventually(w.readyCondition(node)).Should(HaveField("Status", corev1.ConditionTrue), "the engine goes on")
	w.waitReady("later", 1)
	after := w.waitReady("kept", 1)[0]
	w.Expect(after.Status.ContainerStatuses[0].ContainerID).To(Equal(before.Status.ContainerStatuses[0].ContainerID),
		"the same container runs on")
	w.Eventually(w.pods("deleted")).Should(BeEmpty())
	w.Eventually(func() []error {
		state := w.nodeState(node)
		pods, err := w.client.CoreV1().Pods(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return []error{err}
		}
		state.Pods = pods.Items
		return state.Differences()
	}).Should(BeEmpty(), "what the node has and should not have")
}

// dockerd that is killed before it notes that a container runs leaves nothing of it; what it knows as running is kept,
// as live-restore promises.
func TestKilledDockerdLeavesNoOrphans(t *testing.T) {
	w := start(t, cluster.WithNodes(1))
	node := w.Node(1)
	w.execOn(node, "sh", "-c", `echo '{"features": {"cdi": true}, "live-restore": true}' > /etc/docker/daemon.json`)
	w.createStayingPod("kept")
	before := w.waitReady("kept", 1)[0]
	orphan := strings.TrimSpace(w.execOn(node, "docker", "run", "--detach", "--network=none", testImage, "serve"))
	w.Expect(w.nodeState(node).Supervised).To(ContainElement(orphan), "a process stands for the container")
	w.signalEngine(node, "STOP")
	w.execOn(
		node,
		"sed",
		"-i",
		`s/"Running":true/"Running":false/`,
		"/var/lib/docker/containers/"+orphan+"/config.v2.json",
	)
	w.signalEngine(node, "KILL")
	w.Eventually(func() []string { return w.nodeState(node).Supervised }).ShouldNot(ContainElement(orphan))
	w.execOn(node, "docker", "rm", orphan)
	w.createStayingPod("later")
	w.waitReady("later", 1)
	after := w.waitReady("kept", 1)[0]
	w.Expect(after.Status.ContainerStatuses[0].ContainerID).To(Equal(before.Status.ContainerStatuses[0].ContainerID),
		"the container that dockerd knows runs on")
}

// createStayingPod creates a pod that stays on a node that is not ready for as long as pods do by default (5 minutes).
func (w *world) createStayingPod(name string) {
	w.t.Helper()
	spec := podSpec()
	spec.Tolerations = nil
	_, err := w.client.CoreV1().Pods(space).Create(w.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}}, Spec: spec},
		metav1.CreateOptions{})
	w.must(err, "create pod %s", name)
}

// signalEngine sends a signal to the node's engine.
func (w *world) signalEngine(node *cluster.Member, signal string) {
	w.t.Helper()
	for pid, command := range w.processes(node) {
		if name := strings.Fields(command)[0]; name[strings.LastIndex(name, "/")+1:] == "dockerd" {
			w.execOn(node, "sh", "-c", "kill -"+signal+" "+pid)
		}
	}
}

// readyCondition returns a function that reads the node's condition Ready.
func (w *world) readyCondition(node *cluster.Member) func() (corev1.NodeCondition, error) {
	name := w.nodeName(node.Name())
	return func() (corev1.NodeCondition, error) {
		object, err := w.client.CoreV1().Nodes().Get(w.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return corev1.NodeCondition{}, err
		}
		for _, c := range object.Status.Conditions {
			if c.Type == corev1.NodeReady {
				return c, nil
			}
		}
		return corev1.NodeCondition{}, nil
	}
}
