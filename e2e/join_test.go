package e2e

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/cluster"
)

// A node that is started by nothing but the printed command line joins, runs pods that reach Services by their names,
// outlives a restart of its container and the end of its token, and is removed.
func TestNodeJoinsByToken(t *testing.T) {
	w := start(t, cluster.WithNodes(1))
	w.createDeployment("web", 1)
	w.waitReady("web", 1)
	w.expose("web")
	command, err := w.JoinCommand(t.Context(), cluster.JoinOptions{NodeName: "worker-a",
		Labels: map[string]string{"zone": "a"},
		Taints: []corev1.Taint{{Key: "only", Value: "guests", Effect: corev1.TaintEffectNoSchedule}}})
	w.must(err, "make the command")
	runJoin(t, command)

	nodes := w.client.CoreV1().Nodes()
	w.Eventually(w.nodeReady("worker-a")).Should(BeTrue())
	node, err := nodes.Get(t.Context(), "worker-a", metav1.GetOptions{})
	w.must(err, "get the node")
	w.Expect(node.Labels).To(HaveKeyWithValue("zone", "a"))
	w.Expect(node.Spec.Taints).To(ContainElement(HaveField("Key", "only")))
	joined, err := w.JoinedNode(t.Context(), "worker-a")
	w.must(err, "find the node's container")
	w.expectGuestServed(joined, "guest")
	for _, file := range []string{"pki/ca.key", "bootstrap-kubelet.conf"} {
		w.Eventually(func() (int, error) {
			found, err := joined.Exec(t.Context(), []string{"ls", "/etc/kubernetes/" + file}, nil)
			return found.Code, err
		}).ShouldNot(BeZero(), "%s is on the node", file)
	}

	heal, err := w.ShiftClock(t.Context(), joined, time.Hour)
	w.must(err, "shift its clock")
	w.must(heal(t.Context()), "heal it")

	w.must(w.DeleteToken(t.Context(), command.Token), "delete the token")
	w.must(joined.Restart(t.Context()), "restart the container")
	w.Eventually(func() (bool, error) { // its pods run again, so that the node is there and not only remembered
		pods, err := w.pods("guest")()
		return len(pods) == 1 && ready(pods[0]) && pods[0].Status.ContainerStatuses[0].RestartCount > 0, err
	}).Should(BeTrue())
	w.Eventually(w.inPod("guest", "get", "http://web", "--timeout=2s")).Should(HavePrefix("web-"), "after the restart")

	w.must(w.RemoveNamedNode(t.Context(), "worker-a"), "remove the node")
	_, err = nodes.Get(t.Context(), "worker-a", metav1.GetOptions{})
	w.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
	w.Expect(docker(t, "ps", "--all", "--quiet", "--filter", "name="+w.Name()+"-worker-a")).To(BeEmpty())
}

// expectGuestServed runs a pod on the joined node: it reaches the Service web by its name, and the API server reaches
// it (exec) by the node's serving certificate.
func (w *world) expectGuestServed(node *cluster.Member, name string) {
	w.t.Helper()
	spec := podSpec()
	spec.NodeName, spec.Tolerations = node.Name(), nil // it stays while its node restarts
	_, err := w.client.CoreV1().Pods(space).Create(w.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}}, Spec: spec,
	}, metav1.CreateOptions{})
	w.must(err, "create pod %s", name)
	w.waitReady(name, 1)
	request := []string{"get", "http://web.default.svc.cluster.local", "--timeout=2s"}
	w.Eventually(w.inPod(name, request...)).Should(HavePrefix("web-"))
}

func (w *world) nodeReady(name string) func() (bool, error) {
	return func() (bool, error) {
		node, err := w.client.CoreV1().Nodes().Get(w.t.Context(), name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady {
				return c.Status == corev1.ConditionTrue, nil
			}
		}
		return false, nil
	}
}

// A container whose command line is wrong ends, and says why.
func TestWrongJoinCommandsSayWhy(t *testing.T) {
	w := start(t, cluster.WithNodes(1))
	command, err := w.JoinCommand(t.Context(), cluster.JoinOptions{})
	w.must(err, "make the command")
	id, _, _ := strings.Cut(command.Token, ".")
	for name, test := range map[string]struct{ old, new, want string }{
		"wrong hash": {command.Hash, "sha256:" + strings.Repeat("0", 64),
			"the cluster's authority has the hash " + command.Hash},
		"wrong secret": {command.Token, id + ".0123456789abcdef", "second part is wrong"},
		"unknown":      {command.Token, "aaaaaa.0123456789abcdef", "quintet join-command"},
		"unreachable":  {command.Server, "127.0.0.1:1", "does not answer"},
	} {
		t.Run(name, func(t *testing.T) {
			changed := command
			changed.Args = append([]string{}, command.Args...)
			for i, arg := range changed.Args {
				if arg == test.old {
					changed.Args[i] = test.new
				}
			}
			changed.Args = append(changed.Args, "--timeout=5s")
			container := runJoin(t, changed)
			if code := strings.TrimSpace(docker(t, "wait", container)); code != "1" {
				t.Errorf("exit code %s", code)
			}
			if logs := docker(t, "logs", container); !strings.Contains(logs, test.want) {
				t.Errorf("%q is not in:\n%s", test.want, logs)
			}
		})
	}
	w.Expect(w.Nodes(t.Context())).To(ContainElement(HaveField("Origin", cluster.OriginCluster)))
}

// runJoin runs a command as a shell does to which it was pasted, and returns the container's identity.
func runJoin(t *testing.T, command cluster.JoinCommand) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "sh", "-c", command.String()).Output()
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	return strings.TrimSpace(string(out))
}
