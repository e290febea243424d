package e2e

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/cluster"
)

// grace is how long a node may be silent for impatient controllers: longer than the 10 s after which kubelets renew
// their lease.
const grace = 16 * time.Second

// impatient makes a lost node noticed within seconds instead of most of a minute.
func impatient() cluster.Option {
	return cluster.WithArgs(cluster.ControllerManager, "--node-monitor-period=1s",
		"--node-monitor-grace-period="+grace.String())
}

func TestKilledNodesPodsRunElsewhere(t *testing.T) {
	w := start(t, cluster.WithNodes(2), impatient())
	w.createDeployment("mobile", 4)
	w.waitReady("mobile", 4)
	victim := w.Node(1)
	w.must(victim.Kill(t.Context()), "kill the node")
	survivor := w.Node(2).Name()
	w.Eventually(func() (bool, error) {
		pods, err := w.pods("mobile")()
		here := 0
		for _, p := range pods {
			if ready(p) && p.Spec.NodeName == w.nodeName(survivor) {
				here++
			}
		}
		return here == 4, err
	}).Should(BeTrue(), "all four pods run on %s", survivor)

	w.must(victim.Start(t.Context()), "start the node again")
	w.must(w.WaitNodes(t.Context()), "wait for the node")
	w.Eventually(w.pods("mobile")).Should(And(HaveLen(4), HaveEach(Satisfy(ready))),
		"the pods of the lost node are gone, here and there")
	w.Eventually(w.containersOn(victim, "mobile")).Should(BeEmpty(), "containers that came back with the node's engine")
}

// nodeName finds the Node object that a member stands for.
func (w *world) nodeName(member string) string {
	w.t.Helper()
	nodes, err := w.client.CoreV1().Nodes().List(w.t.Context(), metav1.ListOptions{})
	w.must(err, "list nodes")
	for _, n := range nodes.Items {
		if n.Name == member || strings.HasSuffix(n.Name, "-"+member) {
			return n.Name
		}
	}
	w.t.Fatalf("no node object for %s", member)
	return ""
}

// containersOn lists the running containers of an app on a node, by asking the node's engine.
func (w *world) containersOn(node *cluster.Member, app string) func() ([]string, error) {
	return func() ([]string, error) {
		result, err := node.Exec(w.t.Context(),
			[]string{"docker", "ps", "--format", `{{.Label "io.kubernetes.pod.name"}}`}, nil)
		var found []string
		for line := range strings.Lines(string(result.Stdout)) {
			if strings.HasPrefix(line, app) {
				found = append(found, strings.TrimSpace(line))
			}
		}
		return found, err
	}
}

func TestPodsSurviveTheirKubelet(t *testing.T) {
	w := start(t, cluster.WithNodes(1))
	for _, name := range []string{"kept", "deleted"} {
		w.createPod(name)
	}
	before := w.waitReady("kept", 1)[0]
	w.waitReady("deleted", 1)
	node := w.Node(1)
	service := func(verb string) {
		result, err := node.Exec(t.Context(), []string{"node-init", verb, "kubelet"}, nil)
		w.must(err, "%s the kubelet", verb)
		w.Expect(result.Code).To(BeZero(), string(result.Stderr))
	}

	service("stop")
	w.must(w.client.CoreV1().Pods(space).Delete(t.Context(), "deleted",
		metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}), "delete a pod meanwhile")
	w.Expect(w.containersOn(node, "kept")()).NotTo(BeEmpty(), "containers run on without a kubelet")
	w.Expect(w.containersOn(node, "deleted")()).NotTo(BeEmpty())
	service("start")

	w.Eventually(w.containersOn(node, "deleted")).Should(BeEmpty(), "what was deleted meanwhile is cleaned up")
	w.createPod("later")
	w.waitReady("later", 1)
	after := w.waitReady("kept", 1)[0]
	w.Expect(after.Status.ContainerStatuses[0].ContainerID).To(Equal(before.Status.ContainerStatuses[0].ContainerID),
		"the same container runs on")
	w.Expect(after.Status.ContainerStatuses[0].RestartCount).To(BeZero())
}

func TestPausedNodeComesBack(t *testing.T) {
	w := start(t, cluster.WithNodes(1), impatient())
	w.must(w.Node(1).Pause(t.Context()), "freeze the node")
	condition := func() (corev1.ConditionStatus, error) {
		nodes, err := w.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		if err != nil || len(nodes.Items) != 1 {
			return "", err
		}
		for _, c := range nodes.Items[0].Status.Conditions {
			if c.Type == corev1.NodeReady {
				return c.Status, nil
			}
		}
		return "", nil
	}
	w.Eventually(condition).WithPolling(200*time.Millisecond).Should(Equal(corev1.ConditionUnknown),
		"a silent node's state is unknown")
	w.must(w.Node(1).Unpause(t.Context()), "let it go on")
	w.Eventually(condition).Should(Equal(corev1.ConditionTrue))
	w.createStayingPod("later") // the taint that evicts goes some seconds after the one that keeps pods away
	w.waitReady("later", 1)
}
