package e2e

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/checks"
	"quintet.dev/quintet/cluster"
)

var (
	enduranceLength = flag.Duration("endurance-length", 60*time.Second, "how long kubelets, engines and nodes are killed")
	enduranceSeed   = flag.Uint64("endurance-seed", uint64(time.Now().UnixNano()), "chooses what is killed when")
)

// csiCalls is the file of a node to which its CSI driver writes calls: it outlives the driver's containers.
const csiCalls = "/var/lib/csi-driver/calls.jsonl"

// TestNodesEndure: kubelets, engines and whole nodes are killed at any moment, while pods come and go. When all is
// quiet again, the pods are what the API says, and nothing else is left on the nodes: no container, no mount, no
// directory, no process. Drivers of volumes were called in pairs, and what a pod wrote into its volume is there.
func TestNodesEndure(t *testing.T) {
	w := start(t, cluster.WithNodes(2), cluster.WithCSIDriver(), impatient(),
		cluster.WithArgs(cluster.CSIDriver, "--call-log="+csiCalls))
	t.Logf("-endurance-seed %d", *enduranceSeed)
	random := rand.New(rand.NewPCG(*enduranceSeed, 0))
	w.createEnduring()
	w.waitReady("kept", 2)
	for _, name := range []string{"kept-0", "kept-1"} {
		w.Eventually(w.inNamedPod(name, "write", "/data/file", "text-of-"+name)).Should(BeEmpty(), "write into a volume")
	}
	rounds := 0
	for began := time.Now(); time.Since(began) < *enduranceLength; rounds++ {
		w.change(random, rounds)
		time.Sleep(time.Duration(random.IntN(2000)) * time.Millisecond)
		w.strike(random)
		time.Sleep(time.Duration(random.IntN(4000)) * time.Millisecond)
	}
	t.Logf("%d rounds", rounds)
	w.scale("web", 4)
	w.expectQuiet()
	for _, name := range []string{"kept-0", "kept-1"} {
		w.Eventually(w.inNamedPod(name, "cat", "/data/file")).Should(Equal("text-of-"+name), "what was written is kept")
	}
	w.deleteEnduring()
	w.expectQuiet()
}

// change creates, deletes and scales pods.
func (w *world) change(random *rand.Rand, round int) {
	w.t.Helper()
	w.scale("web", 2+random.IntN(5))
	w.createJob(fmt.Sprint("job-", round))
	if random.IntN(2) == 0 {
		w.restartPodOf(random, "kept")
	}
	if random.IntN(2) == 0 {
		w.restartPodOf(random, "each")
	}
	if random.IntN(3) == 0 {
		w.restartPodOf(random, "web")
	}
	if round > 1 {
		policy := metav1.DeletePropagationBackground
		err := w.client.BatchV1().Jobs(space).Delete(w.t.Context(), fmt.Sprint("job-", round-2),
			metav1.DeleteOptions{PropagationPolicy: &policy})
		w.must(err, "delete a job")
	}
}

// restartPodOf deletes a pod of an app.
func (w *world) restartPodOf(random *rand.Rand, app string) {
	w.t.Helper()
	pods, err := w.pods(app)()
	w.must(err, "list pods of %s", app)
	if len(pods) == 0 {
		return
	}
	pod := pods[random.IntN(len(pods))]
	_ = w.client.CoreV1().Pods(space).Delete(w.t.Context(), pod.Name, metav1.DeleteOptions{}) // it may be gone by now
}

// strike kills something of a node.
func (w *world) strike(random *rand.Rand) {
	w.t.Helper()
	node := w.Node(1 + random.IntN(2))
	what := []string{"kubelet", "kubelet", "kubelet", "dockerd", "containerd", "restart", "kill"}[random.IntN(7)]
	w.t.Logf("%s of %s", what, node.Name())
	switch what {
	case "restart":
		w.must(node.Restart(w.t.Context()), "restart the node")
	case "kill":
		w.must(node.Kill(w.t.Context()), "kill the node")
		time.Sleep(time.Duration(random.IntN(1000)) * time.Millisecond)
		w.must(node.Start(w.t.Context()), "start the node")
	default:
		w.killProcess(node, what)
	}
}

// killProcess kills a process of a node by its program. One that does not run now is being started again.
func (w *world) killProcess(node *cluster.Member, program string) {
	w.t.Helper()
	for pid, command := range w.processes(node) {
		if name := strings.Fields(command)[0]; name[strings.LastIndex(name, "/")+1:] == program {
			_, err := node.Exec(w.t.Context(), []string{"sh", "-c", "kill -9 " + pid}, nil)
			w.must(err, "kill %s", program)
		}
	}
}

// processes are the commands of a node's processes, by ID. Those of its pods are among them.
func (w *world) processes(node *cluster.Member) map[string]string {
	w.t.Helper()
	const list = `for p in /proc/[0-9]*; do echo "${p#/proc/} $(tr '\0' ' ' < $p/cmdline)"; done 2>/dev/null; true`
	found := map[string]string{}
	for line := range strings.Lines(w.execOn(node, "sh", "-c", list)) {
		if pid, command, _ := strings.Cut(strings.TrimSpace(line), " "); command != "" {
			found[pid] = command
		}
	}
	return found
}

// execOn runs a command on a node and returns what it writes. A node that is starting answers by and by.
func (w *world) execOn(node *cluster.Member, command ...string) string {
	w.t.Helper()
	var out string
	w.Eventually(func() error {
		ctx, cancel := context.WithTimeout(w.t.Context(), 20*time.Second)
		defer cancel()
		result, err := node.Exec(ctx, command, nil)
		if err == nil && result.Code != 0 {
			err = fmt.Errorf("%q: %s", command, result.Stderr)
		}
		out = string(result.Stdout)
		return err
	}).Should(Succeed())
	return out
}

// expectQuiet expects that all pods become ready or succeed, and that nodes have what the API says, and no more.
func (w *world) expectQuiet() {
	w.t.Helper()
	w.must(w.WaitNodes(w.t.Context()), "wait for nodes")
	w.Eventually(func() []string {
		pods, err := w.client.CoreV1().Pods(metav1.NamespaceAll).List(w.t.Context(), metav1.ListOptions{})
		if err != nil {
			return []string{err.Error()}
		}
		var busy []string
		for _, p := range pods.Items {
			if !ready(p) && (p.Status.Phase != corev1.PodSucceeded || p.DeletionTimestamp != nil) {
				busy = append(busy, fmt.Sprintf("%s is %s on %s", p.Name, p.Status.Phase, p.Spec.NodeName))
			}
		}
		return busy
	}).WithTimeout(4*time.Minute).Should(BeEmpty(), "pods that are neither ready nor done")
	for i := range 2 {
		node := w.Node(1 + i)
		w.Eventually(func() []error { return w.differences(node) }).WithPolling(time.Second).Should(BeEmpty(),
			"what %s has and should not have", node.Name())
	}
}

// differences compares a node with the API, and the calls of its CSI driver with its pods.
func (w *world) differences(node *cluster.Member) []error {
	w.t.Helper()
	name := w.nodeName(node.Name())
	pods, err := w.client.CoreV1().Pods(metav1.NamespaceAll).List(w.t.Context(),
		metav1.ListOptions{FieldSelector: "spec.nodeName=" + name})
	if err != nil {
		return []error{err}
	}
	state := w.nodeState(node)
	state.Pods = pods.Items
	found := state.Differences()
	published, broken := checks.CSIBalance(checks.ParseCSICalls(w.execOn(node, "sh", "-c", "cat "+csiCalls+" || true")))
	for _, uid := range published {
		if !slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool { return p.UID == uid }) {
			broken = append(broken, fmt.Errorf("a volume is published to pod %s, which is gone", uid))
		}
	}
	return append(found, broken...)
}

// nodeState reads what a node has.
func (w *world) nodeState(node *cluster.Member) *checks.Node {
	w.t.Helper()
	state := &checks.Node{
		Directories: strings.Fields(w.execOn(node, "ls", "/var/lib/kubelet/pods")), Supervised: []string{},
	}
	labels := []string{"io.kubernetes.pod.uid", "io.kubernetes.pod.name", "io.kubernetes.docker.type",
		"io.kubernetes.container.name"}
	format := "{{.ID}}\t{{.State}}"
	for _, label := range labels {
		format += fmt.Sprintf("\t{{.Label %q}}", label)
	}
	for line := range strings.Lines(w.execOn(node, "docker", "ps", "--all", "--no-trunc", "--format", format)) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(fields) != 6 || fields[2] == "" {
			continue
		}
		c := checks.Container{ID: fields[0], Running: fields[1] == "running", Pod: types.UID(fields[2]), PodName: fields[3]}
		if fields[4] != "podsandbox" {
			c.Name = fields[5]
		}
		state.Containers = append(state.Containers, c)
	}
	for line := range strings.Lines(w.execOn(node, "cat", "/proc/self/mountinfo")) {
		if fields := strings.Fields(line); len(fields) > 4 {
			state.Mounts = append(state.Mounts, fields[4])
		}
	}
	for _, command := range w.processes(node) {
		words := strings.Fields(command)
		if i := slices.Index(words, "-id"); i > 0 && strings.Contains(words[0], "containerd-shim") && i+1 < len(words) {
			state.Supervised = append(state.Supervised, words[i+1])
		}
	}
	return state
}

// inNamedPod runs a verb of the test image in a pod.
func (w *world) inNamedPod(name string, args ...string) func() (string, error) {
	return func() (string, error) {
		pod, err := w.client.CoreV1().Pods(space).Get(w.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		run := fmt.Sprintf("docker exec $(docker ps --quiet --filter label=io.kubernetes.pod.uid=%s "+
			"--filter label=io.kubernetes.container.name=main) testimage %s", pod.UID, strings.Join(args, " "))
		result, err := w.Member(pod.Spec.NodeName).Exec(w.t.Context(), []string{"sh", "-c", run}, nil)
		if err == nil && result.Code != 0 {
			err = fmt.Errorf("%s: %s", run, result.Stderr)
		}
		return strings.TrimSpace(string(result.Stdout)), err
	}
}

func (w *world) scale(deployment string, replicas int) {
	w.t.Helper()
	_, err := w.client.AppsV1().Deployments(space).Patch(w.t.Context(), deployment, types.MergePatchType,
		fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas), metav1.PatchOptions{})
	w.must(err, "scale %s", deployment)
}

// deleteEnduring deletes what createEnduring and the rounds made.
func (w *world) deleteEnduring() {
	w.t.Helper()
	o := metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationForeground)}
	w.must(w.client.AppsV1().Deployments(space).Delete(w.t.Context(), "web", o), "delete")
	w.must(w.client.AppsV1().StatefulSets(space).Delete(w.t.Context(), "kept", o), "delete")
	w.must(w.client.AppsV1().DaemonSets(space).Delete(w.t.Context(), "each", o), "delete")
	w.must(w.client.BatchV1().Jobs(space).DeleteCollection(w.t.Context(), o, metav1.ListOptions{}), "delete")
	w.Eventually(func() ([]corev1.Pod, error) {
		pods, err := w.client.CoreV1().Pods(space).List(w.t.Context(), metav1.ListOptions{})
		return pods.Items, err
	}).Should(BeEmpty(), "pods of what was deleted")
}
