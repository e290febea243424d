package suite

import (
	"fmt"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

func readyNode(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
}

// TestNodesThatPretend: a node whose containers are shown as running, but never end, runs no pods; one that did not
// start its container yet is not among those.
func TestNodesThatPretend(t *testing.T) { synctest.Test(t, testNodesThatPretend) }

func testNodesThatPretend(t *testing.T) {
	client := fake.NewClientset(readyNode("real"), readyNode("hollow"), readyNode("slow"))
	c := &Cluster{Client: client, Features: map[Feature]bool{}}
	client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		ended := corev1.Pod{Spec: corev1.PodSpec{NodeName: "real"}, Status: corev1.PodStatus{Phase: corev1.PodFailed,
			ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{ExitCode: endingCode}}}}}}
		running := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{NodeName: "hollow"},
			Status: corev1.PodStatus{Phase: corev1.PodRunning}}
		waiting := corev1.Pod{Spec: corev1.PodSpec{NodeName: "slow"}, Status: corev1.PodStatus{Phase: corev1.PodPending}}
		return true, &corev1.PodList{Items: []corev1.Pod{ended, running, waiting}}, nil
	})
	if err := c.probeNodes(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !c.Features[RunsPods] || !c.Features[TwoNodes] {
		t.Errorf("features %v", c.Features)
	}
	nodes, err := c.RunningNodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(names(nodes)); got != "[real slow]" {
		t.Errorf("nodes that run pods: %s", got)
	}
}

func names(nodes []corev1.Node) []string {
	var out []string
	for _, n := range nodes {
		out = append(out, n.Name)
	}
	return out
}

func TestNoNodeRunsPods(t *testing.T) {
	tainted := readyNode("tainted")
	tainted.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoExecute}}
	off := readyNode("off")
	off.Spec.Unschedulable = true
	lost := readyNode("lost")
	lost.Status.Conditions[0].Status = corev1.ConditionUnknown
	c := &Cluster{Client: fake.NewClientset(tainted, off, lost), Features: map[Feature]bool{}}
	if nodes, err := c.RunningNodes(t.Context()); err == nil {
		t.Errorf("nodes %v", names(nodes))
	}
}
