package scheduling

import (
	"context"
	"fmt"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/conformance/suite"
)

func ofRequests() []suite.Case {
	return []suite.Case{
		{
			ID:        "scheduling/init-requests",
			Run:       initRequests,
			Reference: "https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers",
			Requirement: "A pod's request MUST be the larger of its init containers' and its containers', with " +
				"those of sidecars added.",
		},
		{ID: "scheduling/pod-requests", Run: podRequests,
			Reference:   "https://kubernetes.io/docs/tasks/configure-pod-container/assign-pod-level-resources/",
			Requirement: "A pod's own resource requests MUST count in the place of its containers'."},
		{ID: "scheduling/overhead", Run: overhead,
			Reference:   "https://kubernetes.io/docs/concepts/scheduling-eviction/pod-overhead/",
			Requirement: "The overhead of a pod's runtime class MUST be added to its requests."},
		{ID: "scheduling/extended-resource", Run: extendedResource,
			Reference: "https://kubernetes.io/docs/tasks/administer-cluster/extended-resource-node/",
			Requirement: "A pod that asks for an extended resource MUST be bound only where as many of it are free, " +
				"and be told what is missing."},
		{ID: "scheduling/pod-count", Run: podCount, Reference: resources,
			Requirement: "A node MUST NOT get more pods than it allows."},
		{ID: "scheduling/host-port-parts", Run: hostPortParts,
			Reference: "https://kubernetes.io/docs/concepts/configuration/overview/",
			Requirement: "Pods that want the same host port at different addresses or protocols MUST fit on one " +
				"node, and one that wants it at all addresses not."},
	}
}

func ofCPU(amount string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(amount)}
}

// fills tells how much a pod holds of a node with one CPU: what is left fits exactly, and a bit more does not.
func fills(ctx context.Context, t *suite.T, name, left, tooMuch string) {
	t.CreatePod(ctx, pod(t, name+"-too-much", cpu(tooMuch)))
	t.Expect(refused(ctx, t, name+"-too-much").Message).To(ContainSubstring("Insufficient cpu"))
	remove(ctx, t, name+"-too-much")
	place(ctx, t, pod(t, name+"-rest", cpu(left)))
	remove(ctx, t, name+"-rest")
}

// initRequests: an init container's request counts where it is above the sum of the others, and a sidecar's always.
func initRequests(ctx context.Context, t *suite.T) {
	addNode(ctx, t, "only", nil)
	with := func(inits ...corev1.Container) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			cpu("200m")(p)
			p.Spec.InitContainers = inits
		}
	}
	initial := func(name, amount string, restart *corev1.ContainerRestartPolicy) corev1.Container {
		return corev1.Container{Name: name, Image: t.Image, Args: []string{"true"}, RestartPolicy: restart,
			Resources: corev1.ResourceRequirements{Requests: ofCPU(amount)}}
	}
	place(ctx, t, pod(t, "init", with(initial("big", "600m", nil))))
	fills(ctx, t, "init", "400m", "450m")
	remove(ctx, t, "init")
	place(ctx, t, pod(t, "sidecar", with(initial("side", "300m", ptr.To(corev1.ContainerRestartPolicyAlways)))))
	fills(ctx, t, "sidecar", "500m", "550m")
	remove(ctx, t, "sidecar")
	place(ctx, t, pod(t, "both", with(initial("side", "300m", ptr.To(corev1.ContainerRestartPolicyAlways)),
		initial("big", "600m", nil))))
	fills(ctx, t, "both", "100m", "150m")
}

func podRequests(ctx context.Context, t *suite.T) {
	addNode(ctx, t, "only", nil)
	place(ctx, t, pod(t, "whole", func(p *corev1.Pod) {
		cpu("100m")(p)
		p.Spec.Resources = &corev1.ResourceRequirements{Requests: ofCPU("700m")}
	}))
	fills(ctx, t, "whole", "300m", "350m")
}

func overhead(ctx context.Context, t *suite.T) {
	addNode(ctx, t, "only", nil)
	classes := t.Client.NodeV1().RuntimeClasses()
	_, err := classes.Create(ctx, &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: t.Namespace},
		Handler: "conformance", Overhead: &nodev1.Overhead{PodFixed: ofCPU("300m")}}, metav1.CreateOptions{})
	t.Must(err, "create the runtime class")
	t.Cleanup(func(ctx context.Context) { _ = classes.Delete(ctx, t.Namespace, metav1.DeleteOptions{}) })
	// Servers hear of the class a moment later.
	sandboxed := pod(t, "sandboxed", func(p *corev1.Pod) {
		cpu("200m")(p)
		p.Spec.RuntimeClassName = &t.Namespace
	})
	t.Eventually(func() error {
		_, err := t.Client.CoreV1().Pods(t.Namespace).Create(ctx, sandboxed, metav1.CreateOptions{})
		return err
	}).WithContext(ctx).WithTimeout(suite.DefaultTimeout).Should(Succeed(), "create a pod of the class")
	bound(ctx, t, "sandboxed")
	fills(ctx, t, "sandboxed", "500m", "550m")
}

func extendedResource(ctx context.Context, t *suite.T) {
	const name = "conformance.quintet.dev/widget"
	addNode(ctx, t, "plain", nil)
	rich := addNode(ctx, t, "rich", nil)
	_, err := t.Client.CoreV1().Nodes().Patch(ctx, rich, types.MergePatchType, fmt.Appendf(nil,
		`{"status":{"capacity":{%q:"2"},"allocatable":{%q:"2"}}}`, name, name), metav1.PatchOptions{}, "status")
	t.Must(err, "give the node an extended resource")
	asks := func(amount string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			cpu("100m")(p)
			list := corev1.ResourceList{name: resource.MustParse(amount)}
			p.Spec.Containers[0].Resources.Requests[name] = list[name]
			p.Spec.Containers[0].Resources.Limits = list
		}
	}
	t.Expect(place(ctx, t, pod(t, "one", asks("1")))).To(Equal(rich))
	t.CreatePod(ctx, pod(t, "two", asks("2")))
	t.Expect(refused(ctx, t, "two").Message).To(ContainSubstring("Insufficient " + name))
	remove(ctx, t, "one")
	t.Expect(bound(ctx, t, "two")).To(Equal(rich))
}

func podCount(ctx context.Context, t *suite.T) {
	node := addNode(ctx, t, "only", nil)
	_, err := t.Client.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType,
		[]byte(`{"status":{"capacity":{"pods":"2"},"allocatable":{"pods":"2"}}}`), metav1.PatchOptions{}, "status")
	t.Must(err, "lower the node's number of pods")
	for _, name := range []string{"one", "two"} {
		place(ctx, t, pod(t, name, cpu("1m")))
	}
	t.CreatePod(ctx, pod(t, "three", cpu("1m")))
	t.Expect(refused(ctx, t, "three").Message).To(ContainSubstring("Too many pods"))
	remove(ctx, t, "one")
	t.Expect(bound(ctx, t, "three")).To(Equal(node))
}

// hostPortParts: a host port is taken for an address and a protocol.
func hostPortParts(ctx context.Context, t *suite.T) {
	node := addNode(ctx, t, "only", nil)
	port := func(address string, protocol corev1.Protocol) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			cpu("10m")(p)
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 8080, HostPort: 8080, HostIP: address,
				Protocol: protocol}}
		}
	}
	t.Expect(place(ctx, t, pod(t, "one", port("192.0.2.1", corev1.ProtocolTCP)))).To(Equal(node))
	t.Expect(place(ctx, t, pod(t, "two", port("192.0.2.2", corev1.ProtocolTCP)))).To(Equal(node))
	t.Expect(place(ctx, t, pod(t, "three", port("192.0.2.1", corev1.ProtocolUDP)))).To(Equal(node))
	t.CreatePod(ctx, pod(t, "all", port("", corev1.ProtocolTCP)))
	t.Expect(refused(ctx, t, "all").Message).To(ContainSubstring("didn't have free ports"))
}
