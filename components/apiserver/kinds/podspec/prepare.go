package podspec

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubectl/pkg/util/qos"
)

// gatedMessage is what upstream's API server says of a pod with scheduling gates.
const gatedMessage = "Scheduling is blocked due to non-empty scheduling gates"

// Terminal reports whether the pod has ended for good.
func Terminal(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// PrepareCreate gives a new pod the status in which every pod starts.
func PrepareCreate(p *corev1.Pod) {
	p.Generation = 1
	p.Status = corev1.PodStatus{Phase: corev1.PodPending}
	p.Status.QOSClass = qos.GetPodQOS(p)
	if len(p.Spec.SchedulingGates) > 0 {
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
			Reason: corev1.PodReasonSchedulingGated, Message: gatedMessage,
		}}
	}
	mergeMatchLabelKeys(p)
	syncAppArmor(p)
}

// CopyResources copies resources and resize policies from those containers of the same name and place.
func CopyResources(to, from []corev1.Container) {
	if len(to) != len(from) {
		return
	}
	for i := range to {
		if to[i].Name != from[i].Name {
			return
		}
	}
	for i := range to {
		to[i].Resources = from[i].Resources
		to[i].ResizePolicy = from[i].ResizePolicy
	}
}

// Restartable reports whether an init container is a sidecar: started in order, then kept running.
func Restartable(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}
