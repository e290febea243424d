package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/cluster"
)

// TestFullNodeDisk: a node with a disk of its own declares it, evicts the pod that fills it and no other, outlives a
// disk that is full to the last byte, and runs pods again when there is room
// (https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/).
func TestFullNodeDisk(t *testing.T) {
	const size = 1 << 30
	w := start(t, cluster.WithNodes(1), cluster.WithNodeDisk(size), cluster.Without(cluster.DNS),
		cluster.WithArgs(cluster.Node, "--eviction-pressure-transition-period=1s"))
	node := w.Node(1)
	found, err := w.client.CoreV1().Nodes().Get(t.Context(), "node-1", metav1.GetOptions{})
	w.must(err, "get the node")
	w.Expect(found.Status.Capacity.StorageEphemeral().Value()).To(BeEquivalentTo(size))

	w.createDeployment("calm", 1)
	calm := w.waitReady("calm", 1)[0]
	w.createFilling("greedy", nil, "fill", "/data/big", "900", "then", "sleep", "forever")
	conditions := w.expectEvicted("greedy", HavePrefix("The node was low on resource: ephemeral-storage."))
	w.Expect(conditions).To(ContainElement(SatisfyAll(
		HaveField("Type", corev1.DisruptionTarget), HaveField("Reason", "TerminationByKubelet"))))
	w.Eventually(w.nodeEvents()).Should(ContainElements("NodeHasDiskPressure", "EvictionThresholdMet"))
	w.Eventually(w.diskPressure()).Should(Equal(corev1.ConditionFalse), "pressure after the pod is gone")

	w.createFilling("over", nil, "fill", "/data/big", "1100")
	w.Eventually(w.phase("over")).Should(Equal("Failed"), "a pod that has no more room")
	w.Eventually(w.diskPressure()).Should(Equal(corev1.ConditionFalse), "pressure after the pod has ended")
	w.Eventually(func() string { return w.execOn(node, "df", "--output=pcent", "/var/lib/kubelet") }).
		Should(MatchRegexp(`\b[12]?\d%`), "what an ended pod kept in an emptyDir is freed")

	limit := resource.MustParse("20Mi")
	w.createFilling("bounded", &limit, "fill", "/data/big", "30", "then", "sleep", "forever")
	w.expectEvicted("bounded", Equal(`Usage of EmptyDir volume "data" exceeds the limit "20Mi". `))
	w.Expect(w.waitReady("calm", 1)[0].UID).To(Equal(calm.UID), "a pod that fills no disk")

	heal, err := w.FillDisk(t.Context(), node, 0)
	w.must(err, "fill the disk")
	w.Eventually(w.diskPressure()).Should(Equal(corev1.ConditionTrue), "pressure on a full disk")
	w.killProcess(node, "kubelet")
	w.Eventually(w.diskPressure()).Should(Equal(corev1.ConditionTrue), "pressure after the kubelet has begun again")
	w.Eventually(w.nodeTaints()).Should(ContainElement(corev1.TaintNodeDiskPressure))
	w.must(heal(t.Context()), "heal")
	w.Eventually(w.diskPressure()).Should(Equal(corev1.ConditionFalse), "pressure when there is room")
	w.createDeployment("later", 1)
	w.waitReady("later", 1)
	w.waitReady("calm", 1)

	w.must(node.Restart(t.Context()), "restart the node")
	w.waitReady("later", 1)
	w.Expect(w.execOn(node, "docker", "image", "ls", "--quiet", testImage)).NotTo(BeEmpty(), "the disk outlives a restart")
}

// createFilling creates a pod with an emptyDir at /data.
func (w *world) createFilling(name string, limit *resource.Quantity, args ...string) {
	w.t.Helper()
	spec := podSpec()
	spec.RestartPolicy = corev1.RestartPolicyNever
	spec.Containers[0].Args = args
	spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: limit}}}}
	_, err := w.client.CoreV1().Pods(space).Create(w.t.Context(),
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{})
	w.must(err, "create pod %s", name)
}

// expectEvicted waits until a pod was evicted, and returns its conditions.
func (w *world) expectEvicted(name string, message OmegaMatcher) []corev1.PodCondition {
	w.t.Helper()
	var last corev1.PodStatus
	w.Eventually(func() (string, error) {
		pod, err := w.client.CoreV1().Pods(space).Get(w.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		last = pod.Status
		return fmt.Sprint(pod.Status.Phase, pod.Status.Reason), nil
	}).Should(Equal("FailedEvicted"), "status of %s", name)
	w.Expect(last.Message).To(message)
	return last.Conditions
}

// phase is that of a pod.
func (w *world) phase(name string) func() (string, error) {
	return func() (string, error) {
		pod, err := w.client.CoreV1().Pods(space).Get(w.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		return string(pod.Status.Phase), nil
	}
}

// nodeEvents are the reasons of events of the first node.
func (w *world) nodeEvents() func() ([]string, error) {
	return func() ([]string, error) {
		list, err := w.client.CoreV1().Events(metav1.NamespaceAll).List(w.t.Context(),
			metav1.ListOptions{FieldSelector: "involvedObject.kind=Node,involvedObject.name=node-1"})
		if err != nil {
			return nil, err
		}
		var reasons []string
		for i := range list.Items {
			reasons = append(reasons, list.Items[i].Reason)
		}
		return reasons, nil
	}
}

// diskPressure is the condition of the first node.
func (w *world) diskPressure() func() (corev1.ConditionStatus, error) {
	return func() (corev1.ConditionStatus, error) {
		node, err := w.client.CoreV1().Nodes().Get(w.t.Context(), "node-1", metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		at := slices.IndexFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeDiskPressure
		})
		if at < 0 || time.Since(node.Status.Conditions[at].LastHeartbeatTime.Time) > time.Minute {
			return corev1.ConditionUnknown, nil
		}
		return node.Status.Conditions[at].Status, nil
	}
}

// nodeTaints are the keys of the taints of the first node.
func (w *world) nodeTaints() func() ([]string, error) {
	return func() ([]string, error) {
		node, err := w.client.CoreV1().Nodes().Get(w.t.Context(), "node-1", metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		var keys []string
		for _, taint := range node.Spec.Taints {
			keys = append(keys, taint.Key)
		}
		return keys, nil
	}
}
