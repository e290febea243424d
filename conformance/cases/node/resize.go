package node

import (
	"context"
	"strings"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"quintet.dev/quintet/conformance/suite"
)

// Where a container finds its bounds: by the second version of control groups, and by the first.
var (
	memoryFiles = []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}
	cpuFiles    = []string{"/sys/fs/cgroup/cpu.max", "/sys/fs/cgroup/cpu/cpu.cfs_quota_us"}
)

// bound is the first number in the first of files that the pod can read.
func bound(ctx context.Context, t *suite.T, pod string, files []string) string {
	for _, file := range files {
		out, _, err := execute(ctx, t, pod, "", "testimage", "cat", file)
		if words := strings.Fields(out); err == nil && len(words) > 0 {
			return words[0]
		}
	}
	return ""
}

func resize(ctx context.Context, t *suite.T) {
	p := t.Pod("resized", "sleep", "forever")
	main := &p.Spec.Containers[0]
	main.Resources = corev1.ResourceRequirements{Requests: amounts("20m", "32Mi"), Limits: amounts("200m", "64Mi")}
	main.ResizePolicy = []corev1.ContainerResizePolicy{
		{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.NotRequired},
		{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer},
	}
	p.Spec.RestartPolicy = corev1.RestartPolicyAlways
	t.CreatePod(ctx, p)
	first := container(running(ctx, t, "resized"), "main")
	t.Expect(first.Resources).NotTo(BeNil(), "what the container has is reported")
	t.Expect(bound(ctx, t, "resized", cpuFiles)).To(Equal("20000"))
	t.Expect(bound(ctx, t, "resized", memoryFiles)).To(Equal("67108864"))

	change := func(resources string) int64 {
		changed, err := t.Client.CoreV1().Pods(t.Namespace).Patch(ctx, "resized", types.StrategicMergePatchType,
			[]byte(`{"spec":{"containers":[{"name":"main","resources":`+resources+`}]}}`),
			metav1.PatchOptions{}, "resize")
		t.Must(err, "resize the pod")
		return changed.Generation
	}
	done := func(what string, generation int64, limits corev1.ResourceList) corev1.ContainerStatus {
		p := suite.WaitFor(ctx, t, what, t.GetPod("resized"), Satisfy(func(p *corev1.Pod) bool {
			c := container(p, "main")
			return p.Status.ObservedGeneration >= generation && c.State.Running != nil && c.Resources != nil &&
				c.Resources.Limits.Cpu().Equal(*limits.Cpu()) && c.Resources.Limits.Memory().Equal(*limits.Memory()) &&
				condition(p, corev1.PodResizePending) == corev1.ConditionUnknown &&
				condition(p, corev1.PodResizeInProgress) == corev1.ConditionUnknown
		}))
		return container(p, "main")
	}
	more := done("more CPU", change(`{"requests":{"cpu":"30m"},"limits":{"cpu":"300m"}}`), amounts("300m", "64Mi"))
	t.Expect(more.ContainerID).To(Equal(first.ContainerID), "more CPU takes no restart")
	t.Expect(more.RestartCount).To(BeZero())
	t.Expect(more.AllocatedResources.Cpu().MilliValue()).To(BeEquivalentTo(30))
	t.Expect(bound(ctx, t, "resized", cpuFiles)).To(Equal("30000"))

	again := done("more memory", change(`{"limits":{"memory":"96Mi"}}`), amounts("300m", "96Mi"))
	t.Expect(again.RestartCount).To(BeEquivalentTo(1), "memory is resized by a restart, as the policy says")
	t.Expect(again.ContainerID).NotTo(Equal(first.ContainerID))
	t.Expect(bound(ctx, t, "resized", memoryFiles)).To(Equal("100663296"))
}
