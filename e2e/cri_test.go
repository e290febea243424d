package e2e

import (
	"bytes"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/cluster"
)

// TestPodsOnContainerd: nodes with an engine behind CRI run pods that are found by their Service's name, tell what they
// wrote, and outlive a restart of their node.
func TestPodsOnContainerd(t *testing.T) {
	w := start(t, cluster.WithNodes(2), cluster.WithRuntime(cluster.CRI))
	nodes, err := w.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	w.must(err, "list nodes")
	for _, n := range nodes.Items {
		w.Expect(n.Status.NodeInfo.ContainerRuntimeVersion).To(HavePrefix("containerd://"), n.Name)
	}
	w.createDeployment("served", 2)
	w.waitReady("served", 2)
	w.expose("served")
	_, err = w.client.CoreV1().Pods(space).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "asks"},
		Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyOnFailure, Containers: []corev1.Container{{
			Name: "main", Image: testImage, Args: []string{"get", "http://served/"}}}},
	}, metav1.CreateOptions{})
	w.must(err, "create a client")
	w.Eventually(func() (corev1.PodPhase, error) {
		p, err := w.client.CoreV1().Pods(space).Get(t.Context(), "asks", metav1.GetOptions{})
		return p.Status.Phase, err
	}).Should(Equal(corev1.PodSucceeded), "a pod that asks the Service by its name")
	w.Eventually(func() (string, error) {
		content, err := w.client.CoreV1().Pods(space).GetLogs("asks", &corev1.PodLogOptions{}).DoRaw(t.Context())
		return string(bytes.TrimSpace(content)), err
	}).ShouldNot(BeEmpty(), "its log")
	w.must(w.Node(1).Restart(t.Context()), "restart a node")
	w.must(w.WaitNodes(t.Context()), "wait for the nodes")
	w.waitReady("served", 2)
}
