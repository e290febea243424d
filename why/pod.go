package why

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// pod explains a pod: its scheduling, its node, its containers in the order in which they start, its readiness gates.
func (s *Snapshot) pod(p *corev1.Pod) (State, []Cause) {
	switch p.Status.Phase {
	case corev1.PodSucceeded:
		return Complete, nil
	case corev1.PodFailed:
		return Failed, failedPod(p)
	}
	if p.Spec.NodeName == "" {
		return Pending, s.unscheduled(p)
	}
	var causes []Cause
	if n := s.node(p.Spec.NodeName); n != nil {
		if state, of := node(n); state != Ready {
			causes = append(causes, about("Node", n, Cause{Reason: "NodeNotReady", Message: "Its node is not ready.",
				Causes: of}))
		}
	} else if s.known("Node") && len(s.Nodes) > 0 {
		causes = append(causes, Cause{Reason: "NodeGone",
			Message: fmt.Sprintf("Its node %s does not exist any more.", p.Spec.NodeName),
			Help:    "The pod is deleted by itself, and replaced if a controller owns it."})
	}
	causes = append(causes, s.containers(p)...)
	causes = append(causes, readinessGates(p)...)
	if len(causes) > 0 {
		return Pending, causes
	}
	if c := podCondition(p, corev1.PodReady); c == nil || c.Status != corev1.ConditionTrue {
		return Pending, []Cause{{Reason: "NotReported", Message: "The kubelet has not yet reported it ready."}}
	}
	return Ready, nil
}

func failedPod(p *corev1.Pod) []Cause {
	var causes []Cause
	if p.Status.Reason != "" || p.Status.Message != "" {
		c := Cause{Reason: or(p.Status.Reason, "Failed"), Message: or(p.Status.Message, "It failed.")}
		switch p.Status.Reason {
		case "Evicted":
			c.Help = "Give it requests that cover what it uses, or the node more room."
		case "DeadlineExceeded":
			c.Help = "Raise activeDeadlineSeconds, or see what takes it so long."
		}
		causes = append(causes, c)
	}
	for _, status := range append(p.Status.InitContainerStatuses, p.Status.ContainerStatuses...) {
		if t := status.State.Terminated; t != nil && t.ExitCode != 0 {
			causes = append(causes, ended(status.Name, t))
		}
	}
	if len(causes) == 0 {
		causes = []Cause{{Reason: "Failed", Message: "It failed, and does not say why."}}
	}
	return causes
}

// schedulerDelay is how long a scheduler may take until its absence is presumed.
const schedulerDelay = 10 * time.Second

func (s *Snapshot) unscheduled(p *corev1.Pod) []Cause {
	if len(p.Spec.SchedulingGates) > 0 {
		var names []string
		for _, g := range p.Spec.SchedulingGates {
			names = append(names, g.Name)
		}
		return []Cause{{Reason: "SchedulingGated", Message: "Scheduling gates hold it: " + strings.Join(names, ", ") + ".",
			Help: "Their controllers remove them from spec.schedulingGates when the pod may be scheduled."}}
	}
	c := podCondition(p, corev1.PodScheduled)
	if c == nil {
		if causes := s.missingResourceClaims(p); len(causes) > 0 {
			return causes
		}
		name := or(p.Spec.SchedulerName, corev1.DefaultSchedulerName)
		if s.Now.Sub(p.CreationTimestamp.Time) < schedulerDelay {
			return []Cause{{Reason: "NotScheduled", Message: fmt.Sprintf("The scheduler %s has not yet seen it.", name)}}
		}
		return []Cause{{Reason: "NoScheduler", Message: fmt.Sprintf("No scheduler of the name %s has looked at it.", name),
			Help: "Start that scheduler, or correct spec.schedulerName."}}
	}
	cause := Cause{Reason: or(c.Reason, "Unschedulable"), Message: or(c.Message, "The scheduler has found no node.")}
	for _, v := range p.Spec.Volumes {
		cause.Causes = append(cause.Causes, s.unboundClaim(p, v)...)
	}
	if len(cause.Causes) == 0 {
		cause.Help = strings.Join(UnschedulableHelp(c.Message), " ")
	}
	return []Cause{cause}
}

// unboundClaim is what keeps the claim behind a volume from being bound.
func (s *Snapshot) unboundClaim(p *corev1.Pod, v corev1.Volume) []Cause {
	var name string
	switch {
	case v.PersistentVolumeClaim != nil:
		name = v.PersistentVolumeClaim.ClaimName
	case v.Ephemeral != nil:
		name = p.Name + "-" + v.Name
	default:
		return nil
	}
	claim := s.claim(name)
	if claim == nil {
		if !s.known("PersistentVolumeClaim") {
			return nil
		}
		return []Cause{{Reason: "ClaimMissing", Message: fmt.Sprintf("PersistentVolumeClaim %s does not exist.", name),
			Help: "Create it, or correct the name in spec.volumes."}}
	}
	state, causes := s.persistentVolumeClaim(claim)
	if state == Ready || len(causes) == 1 && causes[0].Reason == "WaitForFirstConsumer" {
		return nil
	}
	return []Cause{about("PersistentVolumeClaim", claim, Cause{Reason: "ClaimNotBound", Message: "It is not bound.",
		Causes: causes})}
}

func readinessGates(p *corev1.Pod) []Cause {
	var causes []Cause
	for _, gate := range p.Spec.ReadinessGates {
		if c := podCondition(p, gate.ConditionType); c == nil || c.Status != corev1.ConditionTrue {
			message := fmt.Sprintf("The condition %s of its readiness gates is not True.", gate.ConditionType)
			if c != nil && c.Message != "" {
				message += " " + c.Message
			}
			causes = append(causes, Cause{Reason: "ReadinessGate", Message: message,
				Help: "The controller that the condition belongs to sets it."})
		}
	}
	return causes
}

func podCondition(p *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == kind {
			return ptr.To(p.Status.Conditions[i])
		}
	}
	return nil
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}
