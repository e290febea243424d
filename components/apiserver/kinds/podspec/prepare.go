package podspec

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubectl/pkg/util/qos"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// gatedMessage is what upstream's API server says of a pod with scheduling gates.
const gatedMessage = "Scheduling is blocked due to non-empty scheduling gates"

// Terminal reports whether the pod has ended for good.
func Terminal(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// PrepareCreate gives a new pod the status in which every pod starts. It returns warnings about what it had to change.
func PrepareCreate(on api.PodFeatures, p *corev1.Pod, now time.Time) []string {
	DropDisabled(on, &p.Spec, nil)
	p.Generation = 1
	// A class of service that the client gives is taken: the one thing of the status that is.
	p.Status = corev1.PodStatus{Phase: corev1.PodPending, QOSClass: qos.GetPodQOS(p)}
	if len(p.Spec.SchedulingGates) > 0 {
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(now),
			Reason: corev1.PodReasonSchedulingGated, Message: gatedMessage,
		}}
	}
	mergeMatchLabelKeys(p)
	return syncAppArmor(p)
}

// Resized are containers with the resources and resize policies of those wanted; or these as they are, for validation
// to refuse, if they have other names or another order.
func Resized(has, wanted []corev1.Container) []corev1.Container {
	for i := range has {
		if has[i].Name != wanted[i].Name {
			return wanted
		}
		has[i].Resources, has[i].ResizePolicy = wanted[i].Resources, wanted[i].ResizePolicy
	}
	return has
}

// Restartable reports whether an init container is a sidecar: started in order, then kept running.
func Restartable(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// KeepObserved keeps the generations that the old status told of, where a writer that doesn't know them left them out.
func KeepObserved(new, old *corev1.PodStatus) {
	dropDisabledStatus(new, old)
	if new.ObservedGeneration == 0 {
		new.ObservedGeneration = old.ObservedGeneration
	}
	had := map[corev1.PodConditionType][]int64{} // there may be several of a type
	for _, c := range old.Conditions {
		had[c.Type] = append(had[c.Type], c.ObservedGeneration)
	}
	for i := range new.Conditions {
		c := &new.Conditions[i]
		if len(had[c.Type]) == 0 {
			continue
		}
		if c.ObservedGeneration == 0 {
			c.ObservedGeneration = had[c.Type][0]
		}
		had[c.Type] = had[c.Type][1:]
	}
}
