package status

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/kubelet/plan"
	"quintet.dev/quintet/components/kubelet/runtime"
)

// conditions derives the kubelet's conditions; those of others are kept as they are.
func conditions(in *Input, s *v1.PodStatus) []v1.PodCondition {
	containersReady := containersReady(s)
	own := []v1.PodCondition{
		sandboxCondition(in, s),
		initialized(in, s),
		podReady(in, containersReady),
		containersReady,
		{Type: v1.PodScheduled, Status: v1.ConditionTrue},
	}
	if plan.CanRestartAll(in.Pod) {
		own = append(own, restarting(in, s))
	}
	if in.Disrupted != "" {
		own = append(own, v1.PodCondition{Type: v1.DisruptionTarget, Status: v1.ConditionTrue,
			Reason: v1.PodReasonTerminationByKubelet, Message: in.Disrupted})
	}
	ours := map[v1.PodConditionType]bool{v1.PodResizePending: true, v1.PodResizeInProgress: true}
	for i := range own {
		ours[own[i].Type] = true
		own[i].ObservedGeneration = in.Pod.Generation
		own[i].LastTransitionTime = metav1.NewTime(in.Now).Rfc3339Copy()
		if old := find(in.Previous.Conditions, own[i].Type); old != nil && old.Status == own[i].Status {
			own[i].LastTransitionTime = old.LastTransitionTime
		}
	}
	for _, c := range in.Previous.Conditions {
		if !ours[c.Type] {
			own = append(own, c)
		}
	}
	if final(s.Phase) {
		return own
	}
	return append(own, in.Resizes...)
}

func find(conditions []v1.PodCondition, kind v1.PodConditionType) *v1.PodCondition {
	for i := range conditions {
		if conditions[i].Type == kind {
			return &conditions[i]
		}
	}
	return nil
}

func sandboxCondition(in *Input, s *v1.PodStatus) v1.PodCondition {
	c := v1.PodCondition{Type: v1.PodReadyToStartContainers, Status: v1.ConditionFalse}
	sandbox := in.Observed.Sandbox()
	if sandbox != nil && sandbox.State == runtime.Running && !in.Unmounted && !final(s.Phase) {
		c.Status = v1.ConditionTrue
	}
	return c
}

func initialized(in *Input, s *v1.PodStatus) v1.PodCondition {
	c := v1.PodCondition{Type: v1.PodInitialized, Status: v1.ConditionTrue}
	if s.Phase == v1.PodSucceeded {
		c.Reason = "PodCompleted"
		return c
	}
	if before := find(in.Previous.Conditions, c.Type); before != nil && before.Status == v1.ConditionTrue ||
		anyRan(s.ContainerStatuses) {
		// a pod stays initialized when its init containers run again, in a new sandbox or by RestartAllContainers
		return c
	}
	var incomplete []string
	for i := range in.Pod.Spec.InitContainers {
		if !initDone(&in.Pod.Spec.InitContainers[i], &s.InitContainerStatuses[i]) {
			incomplete = append(incomplete, in.Pod.Spec.InitContainers[i].Name)
		}
	}
	if len(incomplete) > 0 {
		c.Status, c.Reason = v1.ConditionFalse, "ContainersNotInitialized"
		c.Message = fmt.Sprintf("containers with incomplete status: [%s]", strings.Join(incomplete, " "))
	}
	return c
}

// restarting returns the condition AllContainersRestarting (KEP-5532).
func restarting(in *Input, s *v1.PodStatus) v1.PodCondition {
	c := v1.PodCondition{Type: v1.AllContainersRestarting, Status: v1.ConditionFalse}
	switch {
	case s.Phase == v1.PodSucceeded:
		c.Reason = "PodCompleted"
	case s.Phase == v1.PodFailed:
		c.Reason = "PodFailed"
	case in.Restarting:
		c.Status, c.Reason, c.Message = v1.ConditionTrue, "RestartAllContainersStarted",
			"container exited with restart policy rule"
	}
	return c
}

func containersReady(s *v1.PodStatus) v1.PodCondition {
	c := v1.PodCondition{Type: v1.ContainersReady, Status: v1.ConditionTrue}
	switch s.Phase {
	case v1.PodSucceeded:
		c.Status, c.Reason = v1.ConditionFalse, "PodCompleted"
		return c
	case v1.PodFailed:
		c.Status, c.Reason = v1.ConditionFalse, "PodFailed"
		return c
	}
	var unready []string
	for i := range s.InitContainerStatuses {
		cs := &s.InitContainerStatuses[i]
		if cs.Started != nil && *cs.Started && !cs.Ready { // a sidecar with a readiness probe counts
			unready = append(unready, cs.Name)
		}
	}
	for i := range s.ContainerStatuses {
		if !s.ContainerStatuses[i].Ready {
			unready = append(unready, s.ContainerStatuses[i].Name)
		}
	}
	if len(unready) > 0 {
		c.Status, c.Reason = v1.ConditionFalse, "ContainersNotReady"
		c.Message = fmt.Sprintf("containers with unready status: [%s]", strings.Join(unready, " "))
	}
	return c
}

// podReady adds the readiness gates to what the containers say (KEP-580).
func podReady(in *Input, containers v1.PodCondition) v1.PodCondition {
	c := containers
	c.Type = v1.PodReady
	if c.Status != v1.ConditionTrue {
		return c
	}
	var closed []string
	for _, gate := range in.Pod.Spec.ReadinessGates {
		condition := find(in.Previous.Conditions, gate.ConditionType)
		switch {
		case condition == nil:
			closed = append(closed, fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist.",
				gate.ConditionType))
		case condition.Status != v1.ConditionTrue:
			closed = append(closed, fmt.Sprintf("the status of pod readiness gate %q is not \"True\", but %v",
				gate.ConditionType, condition.Status))
		}
	}
	if len(closed) > 0 {
		c.Status, c.Reason, c.Message = v1.ConditionFalse, "ReadinessGatesNotReady", strings.Join(closed, ", ")
	}
	return c
}

// QOS classifies a pod by its requests and limits of CPU and memory
// (https://kubernetes.io/docs/concepts/workloads/pods/pod-qos/).
func QOS(pod *v1.Pod) v1.PodQOSClass {
	guaranteed, any := true, false
	containers := plan.Containers(pod)
	if pod.Spec.Resources != nil && (len(pod.Spec.Resources.Requests) > 0 || len(pod.Spec.Resources.Limits) > 0) {
		containers = []*v1.Container{{Resources: *pod.Spec.Resources}}
	}
	for _, c := range containers {
		for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
			request, limit := c.Resources.Requests[name], c.Resources.Limits[name]
			if !request.IsZero() || !limit.IsZero() {
				any = true
			}
			if limit.IsZero() || (!request.IsZero() && request.Cmp(limit) != 0) {
				guaranteed = false
			}
		}
	}
	switch {
	case !any:
		return v1.PodQOSBestEffort
	case guaranteed:
		return v1.PodQOSGuaranteed
	default:
		return v1.PodQOSBurstable
	}
}

// Owns tells the conditions that the kubelet sets.
func Owns(kind v1.PodConditionType) bool {
	switch kind {
	case v1.PodReadyToStartContainers, v1.PodInitialized, v1.PodReady, v1.ContainersReady, v1.PodScheduled,
		v1.AllContainersRestarting:
		return true
	}
	return false
}

// Replace puts c in the place of the condition of its type, or appends it.
func Replace(conditions []v1.PodCondition, c v1.PodCondition) []v1.PodCondition {
	if old := find(conditions, c.Type); old != nil {
		*old = c
		return conditions
	}
	return append(conditions, c)
}
