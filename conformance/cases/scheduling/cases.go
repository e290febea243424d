// Package scheduling holds the cases that test the scheduler: which pods get which nodes, and what is said of those
// that get none.
package scheduling

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"quintet.dev/quintet/conformance/suite"
)

const (
	assign     = "https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/"
	taints     = "https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/"
	resources  = "https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/#how-pods-with-resource-requests-are-scheduled"
	readiness  = "https://kubernetes.io/docs/concepts/scheduling-eviction/pod-scheduling-readiness/"
	volumes    = "https://kubernetes.io/docs/concepts/storage/persistent-volumes/"
	classes    = "https://kubernetes.io/docs/concepts/storage/storage-classes/"
	devices    = "https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/"
	preempting = "https://kubernetes.io/docs/concepts/scheduling-eviction/pod-priority-preemption/"
	spreading  = "https://kubernetes.io/docs/concepts/scheduling-eviction/topology-spread-constraints/"
	conditions = "https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-conditions"
)

// Cases returns the cases of the scheduler. They use nodes of their own making that exist only in the API, so that they
// test the scheduler alone.
func Cases() []suite.Case {
	all := []suite.Case{
		{ID: "scheduling/fit", Run: fit, Reference: resources,
			Requirement: "A pod MUST be bound to a node whose free capacity covers its requests."},
		{ID: "scheduling/refusal", Run: refusal, Reference: conditions,
			Requirement: "A pod that fits nowhere MUST stay pending with PodScheduled=False, reason Unschedulable and a " +
				"message that counts the nodes by reason."},
		{ID: "scheduling/late-capacity", Run: lateCapacity, Reference: resources,
			Requirement: "A pod that waits for capacity MUST be bound once a pod that held it is gone."},
		{ID: "scheduling/late-node", Run: lateNode, Reference: assign,
			Requirement: "A pod that no node suits MUST be bound once a node that suits it appears."},
		{ID: "scheduling/taint", Run: taint, Reference: taints,
			Requirement: "A pod MUST NOT be bound to a node with a NoSchedule taint that it does not tolerate, and may be " +
				"when it does."},
		{ID: "scheduling/unschedulable", Run: unschedulable, Reference: taints,
			Requirement: "A pod MUST NOT be bound to a node with spec.unschedulable until that is lifted."},
		{ID: "scheduling/node-selector", Run: nodeSelector, Reference: assign + "#nodeselector",
			Requirement: "A pod with a nodeSelector MUST be bound only to nodes that carry all its labels."},
		{ID: "scheduling/node-affinity", Run: nodeAffinity, Reference: assign + "#node-affinity",
			Requirement: "Required node affinity MUST restrict the nodes, and preferred affinity decide among them."},
		{ID: "scheduling/host-port", Run: hostPort, Reference: "https://kubernetes.io/docs/concepts/configuration/overview/",
			Requirement: "Two pods that want the same host port MUST NOT be bound to the same node."},
		{ID: "scheduling/spread", Run: spread, Reference: resources,
			Requirement: "Pods of equal requests MUST be spread over equal nodes."},
		{ID: "scheduling/gates", Run: gates, Reference: readiness,
			Requirement: "A pod with scheduling gates MUST NOT be bound, and say so, until the last gate is removed."},
		{ID: "scheduling/priority", Run: priority, Serial: true,
			Reference:   "https://kubernetes.io/docs/concepts/scheduling-eviction/pod-priority-preemption/",
			Requirement: "Of the pods that wait for the same capacity, the one of higher priority MUST be bound first."},
		{ID: "scheduling/volume-missing", Run: volumeMissing, Needs: []suite.Feature{suite.HasControllers},
			Reference: volumes + "#claims-as-volumes",
			Requirement: "A pod whose claim does not exist MUST stay pending and name it, and be bound once the claim is " +
				"there and bound."},
		{ID: "scheduling/volume-affinity", Run: volumeAffinity, Needs: []suite.Feature{suite.HasControllers},
			Reference:   volumes + "#node-affinity",
			Requirement: "A pod MUST be bound only to nodes that the node affinity of its claim's volume selects."},
		{ID: "scheduling/volume-wait", Run: volumeWait, Needs: []suite.Feature{suite.HasControllers},
			Reference: classes + "#volume-binding-mode",
			Requirement: "A claim of a class with WaitForFirstConsumer MUST be bound to a volume that suits its pod's node, " +
				"before the pod is."},
		{ID: "scheduling/volume-provision", Run: volumeProvision, Needs: []suite.Feature{suite.HasControllers},
			Reference: classes + "#volume-binding-mode",
			Requirement: "A claim that is provisioned for its first consumer MUST be annotated with the node that the " +
				"scheduler chose."},
		{ID: "scheduling/volume-once-pod", Run: volumeOncePod, Needs: []suite.Feature{suite.HasControllers},
			Reference: volumes + "#access-modes",
			Requirement: "A pod MUST NOT be bound while another one uses the same ReadWriteOncePod claim, and be bound once " +
				"it is gone."},
		{ID: "scheduling/device-claim", Run: deviceClaim, Needs: []suite.Feature{suite.HasControllers}, Reference: devices,
			Requirement: "A pod with a ResourceClaim MUST be bound where the claim gets its devices, which no other claim " +
				"MUST get until no pod uses them."},
		{ID: "scheduling/device-claim-missing", Run: deviceClaimMissing, Needs: []suite.Feature{suite.HasControllers},
			Reference:   devices,
			Requirement: "A pod whose ResourceClaim does not exist MUST NOT be bound until it does."},
		{ID: "scheduling/device-taint", Run: deviceTaint, Needs: []suite.Feature{suite.HasControllers},
			Reference:   devices + "#device-taints-and-tolerations",
			Requirement: "A device with a NoSchedule taint MUST be allocated only to claims that tolerate it."},
		{ID: "scheduling/device-alternatives", Run: deviceAlternatives, Needs: []suite.Feature{suite.HasControllers},
			Reference: devices + "#prioritized-list",
			Requirement: "Of a request's alternatives, the first that can be had MUST be allocated, and nodes that have " +
				"earlier ones be preferred."},
		{ID: "scheduling/device-template", Run: deviceTemplate, Needs: []suite.Feature{suite.HasControllers},
			Reference: devices,
			Requirement: "A pod with a ResourceClaimTemplate MUST get a claim of its own, be bound where that is allocated, " +
				"and take it along when it goes."},
	}
	all = append(all, slices.Concat(ofNodes(), ofRequests(), ofAffinity(), ofSpreading(), ofPreemption())...)
	for i := range all {
		all[i].Component, all[i].Since = suite.Scheduler, "0.1"
		all[i].Needs = append(all[i].Needs, suite.HasScheduler)
		if strings.HasPrefix(all[i].ID, "scheduling/device-") {
			all[i].Needs = append(all[i].Needs, suite.DeviceClaims)
		}
	}
	return all
}

// label keeps each case's pods on the nodes that it made.
const label = "conformance.quintet.dev/case"

// addNode makes a ready node of 1 CPU, 1 GiB and 10 pods that no kubelet stands behind. It carries a taint that only
// the case's own pods tolerate, so that other work in the cluster keeps off it.
func addNode(ctx context.Context, t *suite.T, name string, change func(*corev1.Node)) string {
	capacity := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi"),
		corev1.ResourcePods: resource.MustParse("10"),
	}
	full := t.Namespace + "-" + name
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: full,
			Labels: map[string]string{label: t.Namespace, "kubernetes.io/hostname": full, "name": name}},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: label, Value: t.Namespace,
			Effect: corev1.TaintEffectNoSchedule}}},
	}
	if change != nil {
		change(node)
	}
	t.Cleanup(func(ctx context.Context) { _ = t.Client.CoreV1().Nodes().Delete(ctx, full, metav1.DeleteOptions{}) })
	created, err := t.Client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	t.Must(err, "create node %s", full)
	created.Status = corev1.NodeStatus{Capacity: capacity, Allocatable: capacity, Conditions: []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "Conformance", LastHeartbeatTime: metav1.Now(),
		LastTransitionTime: metav1.Now(),
	}}}
	status, err := json.Marshal(map[string]any{"status": created.Status})
	t.Must(err, "encode the status")
	_, err = t.Client.CoreV1().Nodes().Patch(ctx, full, types.MergePatchType, status, metav1.PatchOptions{}, "status")
	t.Must(err, "set the status of node %s", full)
	untaint(ctx, t, full, corev1.TaintNodeNotReady)
	return full
}

// untaint lifts a taint that the API server gives by itself. A cluster with a node lifecycle controller lifts it too,
// and may be faster; this serves those without.
func untaint(ctx context.Context, t *suite.T, node, key string) {
	nodes := t.Client.CoreV1().Nodes()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		read, err := nodes.Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		before := len(read.Spec.Taints)
		read.Spec.Taints = slices.DeleteFunc(read.Spec.Taints,
			func(taint corev1.Taint) bool { return taint.Key == key })
		if len(read.Spec.Taints) == before {
			return nil
		}
		_, err = nodes.Update(ctx, read, metav1.UpdateOptions{})
		return err
	})
	t.Must(err, "lift the taint %s of node %s", key, node)
}

// pod returns a pod of half a CPU that may run only on the nodes of this case.
func pod(t *suite.T, name string, change func(*corev1.Pod)) *corev1.Pod {
	p := t.Pod(name, "serve")
	p.Spec.NodeSelector = map[string]string{label: t.Namespace}
	p.Spec.Tolerations = []corev1.Toleration{{Key: label, Operator: corev1.TolerationOpExists}}
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m")}
	if change != nil {
		change(p)
	}
	return p
}

func cpu(amount string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(amount)
	}
}

// place creates a pod and returns the node that it gets.
func place(ctx context.Context, t *suite.T, p *corev1.Pod) string {
	t.CreatePod(ctx, p)
	return bound(ctx, t, p.Name)
}

func bound(ctx context.Context, t *suite.T, name string) string {
	return suite.WaitFor(ctx, t, "pod "+name+" bound", t.GetPod(name),
		HaveField("Spec.NodeName", Not(BeEmpty()))).Spec.NodeName
}

// refused waits until the scheduler has said no to a pod, and returns the condition.
func refused(ctx context.Context, t *suite.T, name string) corev1.PodCondition {
	p := suite.WaitFor(ctx, t, "pod "+name+" refused", t.GetPod(name),
		WithTransform(scheduled, HaveField("Status", corev1.ConditionFalse)))
	t.Expect(p.Spec.NodeName).To(BeEmpty())
	return scheduled(p)
}

// refusedFor waits until the scheduler says no to a pod for a reason. It may have said so before for another one: what
// the case has made just before the pod, a scheduler need not have seen yet.
func refusedFor(ctx context.Context, t *suite.T, name, reason string) {
	suite.WaitFor(ctx, t, "pod "+name+" refused", t.GetPod(name), And(HaveField("Spec.NodeName", BeEmpty()),
		WithTransform(scheduled, And(HaveField("Status", corev1.ConditionFalse),
			HaveField("Message", ContainSubstring(reason))))))
}

func scheduled(p *corev1.Pod) corev1.PodCondition {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			return c
		}
	}
	return corev1.PodCondition{}
}

// remove deletes a pod at once: no kubelet would do it on a node that exists only in the API.
func remove(ctx context.Context, t *suite.T, name string) {
	now := int64(0)
	t.Must(t.Client.CoreV1().Pods(t.Namespace).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now}),
		"delete pod %s", name)
}
