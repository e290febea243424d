package node

import (
	"context"
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/conformance/suite"
)

const (
	resizeDocs = "https://kubernetes.io/docs/tasks/configure-pod-container/resize-container-resources/"
	podLevel   = "https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/#pod-level-resource-specification"
	classDocs  = "https://kubernetes.io/docs/concepts/containers/runtime-class/"
)

func boundCases() []suite.Case {
	return since("0.3", []suite.Case{
		{ID: "node/cpu-limit", Run: cpuLimit, Reference: limits,
			Requirement: "The CPU limit of a container MUST be that of its control group."},
		{ID: "node/qos-class", Run: qosClass, Reference: "https://kubernetes.io/docs/concepts/workloads/pods/pod-qos/",
			Requirement: "The status of a pod MUST tell its quality of service: Guaranteed, Burstable or BestEffort."},
		{ID: "node/oom-restart", Run: oomRestart, Reference: limits,
			Requirement: "A container that was killed for its memory MUST be restarted where its policy says so, and its last " +
				"state be OOMKilled."},
		{ID: "node/pod-memory-limit", Run: podMemory, Reference: podLevel,
			Requirement: "The memory limit of a pod MUST bound its containers together."},
		{ID: "node/resize-memory-in-place", Run: resizeMemory, Reference: resizeDocs,
			Requirement: "A memory limit whose policy is NotRequired MUST grow without a restart."},
		{ID: "node/resize-infeasible", Run: resizeInfeasible, Reference: resizeDocs,
			Requirement: "A resize that the node can never satisfy MUST be forbidden for the cause NodeCapacity, and " +
				"change nothing."},
		{ID: "node/resize-deferred", Run: resizeDeferred, Reference: resizeDocs, Serial: true,
			Requirement: "A resize that does not fit now MUST be reported as Deferred, and be carried out once there is room."},
		{ID: "node/resize-pod", Run: resizePod, Reference: resizeDocs,
			Requirement: "The resources of a pod as a whole MUST be resized without a restart of its containers."},
		{ID: "node/ephemeral-storage-limit", Run: storageLimit,
			Reference:   limits + "#local-ephemeral-storage",
			Requirement: "A pod whose container writes more than its limit of ephemeral storage MUST be evicted."},
		{ID: "node/runtime-class", Run: runtimeClass, Reference: classDocs,
			Requirement: "A pod of a missing RuntimeClass MUST be refused, one MUST get the overhead of its class, and one of " +
				"a handler that the node lacks MUST stay pending and say why."},
		{ID: "node/resources-refused", Run: resourcesRefused, Reference: limits,
			Requirement: "A pod that is bound to a node without enough of a resource MUST fail with OutOf and its name."},
		{ID: "node/affinity-refused", Run: affinityRefused,
			Reference:   "https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/",
			Requirement: "A pod that is bound to a node that its selector excludes MUST fail with NodeAffinity."},
	})
}

func amounts(cpu, memory string) corev1.ResourceList {
	list := corev1.ResourceList{}
	if cpu != "" {
		list[corev1.ResourceCPU] = resource.MustParse(cpu)
	}
	if memory != "" {
		list[corev1.ResourceMemory] = resource.MustParse(memory)
	}
	return list
}

// milliCPU is the CPU of a list, in thousandths.
func milliCPU(list corev1.ResourceList) int64 { return list.Cpu().MilliValue() }

func cpuLimit(ctx context.Context, t *suite.T) {
	p := t.Pod("bounded", "sleep", "forever")
	p.Spec.Containers[0].Resources.Limits = amounts("350m", "64Mi")
	t.CreatePod(ctx, p)
	running(ctx, t, "bounded")
	t.Expect(bound(ctx, t, "bounded", cpuFiles)).To(Equal("35000"))
}

func qosClass(ctx context.Context, t *suite.T) {
	for want, r := range map[corev1.PodQOSClass]corev1.ResourceRequirements{
		corev1.PodQOSBestEffort: {},
		corev1.PodQOSBurstable:  {Requests: amounts("10m", "")},
		corev1.PodQOSGuaranteed: {Limits: amounts("20m", "32Mi")},
	} {
		p := t.Pod(strings.ToLower(string(want)), "exit", "0")
		p.Spec.Containers[0].Resources = r
		t.CreatePod(ctx, p)
		t.Expect(ended(ctx, t, p.Name, corev1.PodSucceeded).Status.QOSClass).To(Equal(want))
	}
}

func oomRestart(ctx context.Context, t *suite.T) {
	p := t.Pod("hungry", "sleep", "2s", "then", "allot", "256")
	p.Spec.RestartPolicy = corev1.RestartPolicyAlways
	p.Spec.Containers[0].Resources.Limits = amounts("", "48Mi")
	t.CreatePod(ctx, p)
	again := suite.WaitFor(ctx, t, "the container restarted", t.GetPod("hungry"), Satisfy(func(p *corev1.Pod) bool {
		return container(p, "main").RestartCount >= 1 && container(p, "main").LastTerminationState.Terminated != nil
	}))
	last := container(again, "main").LastTerminationState.Terminated
	t.Expect(last.Reason).To(Equal("OOMKilled"))
	t.Expect(last.ExitCode).To(BeEquivalentTo(137))
}

func podMemory(ctx context.Context, t *suite.T) {
	p := t.Pod("hungry", "sleep", "2s", "then", "allot", "256")
	p.Spec.Resources = &corev1.ResourceRequirements{Limits: amounts("500m", "64Mi")}
	t.CreatePod(ctx, p)
	failed := ended(ctx, t, "hungry", corev1.PodFailed)
	t.Expect(container(failed, "main").State.Terminated.ExitCode).To(BeEquivalentTo(137))
	t.Expect(failed.Status.QOSClass).To(Equal(corev1.PodQOSGuaranteed))
}

// resizeTo changes the resources of a pod's main container.
func resizeTo(ctx context.Context, t *suite.T, pod, resources string) {
	patchPod(ctx, t, pod, `{"spec":{"containers":[{"name":"main","resources":`+resources+`}]}}`, "resize")
}

func resizeMemory(ctx context.Context, t *suite.T) {
	p := t.Pod("grows", "sleep", "forever")
	p.Spec.Containers[0].Resources.Limits = amounts("100m", "64Mi")
	p.Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{
		{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.NotRequired}}
	t.CreatePod(ctx, p)
	before := container(running(ctx, t, "grows"), "main")
	resizeTo(ctx, t, "grows", `{"requests":{"memory":"96Mi"},"limits":{"memory":"96Mi"}}`)
	after := suite.WaitFor(ctx, t, "the memory resized", t.GetPod("grows"), Satisfy(func(p *corev1.Pod) bool {
		r := container(p, "main").Resources
		return r != nil && r.Limits.Memory().Value() == 96<<20
	}))
	t.Expect(container(after, "main").ContainerID).To(Equal(before.ContainerID))
	t.Expect(container(after, "main").RestartCount).To(BeZero())
	t.Expect(bound(ctx, t, "grows", memoryFiles)).To(Equal("100663296"))
}

// pendingFor is the reason for which a pod's resize is pending; "" for none.
func pendingFor(p *corev1.Pod) string {
	i := slices.IndexFunc(p.Status.Conditions,
		func(c corev1.PodCondition) bool { return c.Type == corev1.PodResizePending })
	if i < 0 {
		return ""
	}
	return p.Status.Conditions[i].Reason
}

func resizeInfeasible(ctx context.Context, t *suite.T) {
	p := t.Pod("modest", "sleep", "forever")
	p.Spec.Containers[0].Resources.Requests = amounts("10m", "16Mi")
	t.CreatePod(ctx, p)
	before := container(running(ctx, t, "modest"), "main")
	_, err := t.Client.CoreV1().Pods(t.Namespace).Patch(ctx, "modest", types.StrategicMergePatchType,
		[]byte(`{"spec":{"containers":[{"name":"main","resources":{"requests":{"cpu":"100000"}}}]}}`),
		metav1.PatchOptions{}, "resize")
	t.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
	t.Expect(apierrors.HasStatusCause(err, "NodeCapacity")).To(BeTrue(), "%v", err)
	after, err := t.GetPod("modest")(ctx)
	t.Must(err, "read the pod")
	t.Expect(milliCPU(container(after, "main").AllocatedResources)).To(BeEquivalentTo(10))
	t.Expect(container(after, "main").ContainerID).To(Equal(before.ContainerID))
	resizeTo(ctx, t, "modest", `{"requests":{"cpu":"20m"}}`)
	suite.WaitFor(ctx, t, "a smaller resize done", t.GetPod("modest"), Satisfy(func(p *corev1.Pod) bool {
		return pendingFor(p) == "" && milliCPU(container(p, "main").AllocatedResources) == 20
	}))
}

func resizeDeferred(ctx context.Context, t *suite.T) {
	node := mustNodes(ctx, t)[0]
	all := node.Status.Allocatable.Cpu().MilliValue()
	resizing := t.Pod("grows", "sleep", "forever")
	resizing.Spec.Containers[0].Resources.Requests = amounts("10m", "")
	t.CreatePod(ctx, on(resizing, node.Name))
	running(ctx, t, "grows")
	filler := t.Pod("filler", "sleep", "forever")
	filler.Spec.Containers[0].Resources.Requests = amounts(fmt.Sprintf("%dm", all/2), "")
	t.CreatePod(ctx, on(filler, node.Name))
	running(ctx, t, "filler")
	resizeTo(ctx, t, "grows", fmt.Sprintf(`{"requests":{"cpu":"%dm"}}`, all*6/10))
	suite.WaitFor(ctx, t, "the resize deferred", t.GetPod("grows"),
		WithTransform(pendingFor, Equal(corev1.PodReasonDeferred)))
	remove(ctx, t, "filler")
	suite.WaitFor(ctx, t, "the resize done", t.GetPod("grows"), Satisfy(func(p *corev1.Pod) bool {
		return pendingFor(p) == "" && milliCPU(container(p, "main").AllocatedResources) == all*6/10
	}))
}

func resizePod(ctx context.Context, t *suite.T) {
	p := t.Pod("whole", "sleep", "forever")
	p.Spec.Resources = &corev1.ResourceRequirements{Requests: amounts("20m", "32Mi"), Limits: amounts("200m", "64Mi")}
	t.CreatePod(ctx, p)
	before := container(running(ctx, t, "whole"), "main")
	patchPod(ctx, t, "whole", `{"spec":{"resources":{"limits":{"cpu":"300m"}}}}`, "resize")
	after := suite.WaitFor(ctx, t, "the pod resized", t.GetPod("whole"), Satisfy(func(p *corev1.Pod) bool {
		return p.Status.Resources != nil && p.Status.Resources.Limits.Cpu().MilliValue() == 300
	}))
	t.Expect(container(after, "main").ContainerID).To(Equal(before.ContainerID))
}

func storageLimit(ctx context.Context, t *suite.T) {
	p := t.Pod("writes", "write", "/file", big, "then", "sleep", "forever")
	p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{
		corev1.ResourceEphemeralStorage: resource.MustParse("16Ki")}
	t.CreatePod(ctx, p)
	evicted := ended(ctx, t, "writes", corev1.PodFailed)
	t.Expect(evicted.Status.Reason).To(Equal("Evicted"))
	t.Expect(evicted.Status.Message).To(ContainSubstring("ephemeral"))
}

func runtimeClass(ctx context.Context, t *suite.T) {
	p := t.Pod("classless", "exit", "0")
	p.Spec.RuntimeClassName = ptr.To(t.Namespace)
	_, err := t.Client.CoreV1().Pods(t.Namespace).Create(ctx, p, metav1.CreateOptions{})
	t.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
	classes := t.Client.NodeV1().RuntimeClasses()
	t.Cleanup(func(ctx context.Context) { _ = classes.Delete(ctx, t.Namespace, metav1.DeleteOptions{}) })
	_, err = classes.Create(ctx, &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: t.Namespace},
		Handler: "no-such-handler", Overhead: &nodev1.Overhead{PodFixed: amounts("30m", "8Mi")}}, metav1.CreateOptions{})
	t.Must(err, "create the class")
	suite.WaitFor(ctx, t, "the class known", func(ctx context.Context) (*corev1.Pod, error) {
		created, err := t.Client.CoreV1().Pods(t.Namespace).Create(ctx, p, metav1.CreateOptions{})
		if apierrors.IsForbidden(err) {
			return nil, err
		}
		return created, err
	}, Satisfy(func(p *corev1.Pod) bool { return p != nil && milliCPU(p.Spec.Overhead) == 30 }))
	suite.WaitFor(ctx, t, "an event that names the handler", messagesOf(t, "classless", "FailedCreatePodSandBox"),
		ContainElement(ContainSubstring("no-such-handler")))
	p, err = t.GetPod("classless")(ctx)
	t.Must(err, "read the pod")
	t.Expect(p.Status.Phase).To(Equal(corev1.PodPending))
	t.Expect(container(p, "main").ContainerID).To(BeEmpty())
}

func resourcesRefused(ctx context.Context, t *suite.T) {
	p := t.Pod("huge", "exit", "0")
	p.Spec.NodeName = mustNodes(ctx, t)[0].Name
	p.Spec.Containers[0].Resources.Requests = amounts("100000", "")
	t.CreatePod(ctx, p)
	failed := ended(ctx, t, "huge", corev1.PodFailed)
	t.Expect(failed.Status.Reason).To(Equal("OutOfcpu"))
	t.Expect(failed.Status.Message).To(ContainSubstring("cpu"))
}

func affinityRefused(ctx context.Context, t *suite.T) {
	p := t.Pod("elsewhere", "exit", "0")
	p.Spec.NodeName = mustNodes(ctx, t)[0].Name
	p.Spec.NodeSelector = map[string]string{"example.com/none": "such"}
	t.CreatePod(ctx, p)
	t.Expect(ended(ctx, t, "elsewhere", corev1.PodFailed).Status.Reason).To(Equal("NodeAffinity"))
}
