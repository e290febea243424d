// Package pods holds functions on pods that controllers share.
package pods

import (
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Active tells whether a pod counts as a replica: it has neither terminated nor a deletion timestamp.
func Active(pod *v1.Pod) bool {
	return !Ended(pod) && pod.DeletionTimestamp == nil
}

// Ended pods will never run again.
func Ended(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}

// Terminating pods were asked to end and have not ended yet.
func Terminating(pod *v1.Pod) bool {
	return !Ended(pod) && pod.DeletionTimestamp != nil
}

// Condition returns the condition of type t, or nil.
func Condition(pod *v1.Pod, t v1.PodConditionType) *v1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == t {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// Ready tells whether the pod may serve.
func Ready(pod *v1.Pod) bool {
	c := Condition(pod, v1.PodReady)
	return c != nil && c.Status == v1.ConditionTrue
}

// ReadySince is when the pod became ready; zero if it is not.
func ReadySince(pod *v1.Pod) metav1.Time {
	if c := Condition(pod, v1.PodReady); c != nil && c.Status == v1.ConditionTrue {
		return c.LastTransitionTime
	}
	return metav1.Time{}
}

// Available tells whether the pod has been ready for minReadySeconds at now; if it is ready but not for long
// enough, wait is the rest.
func Available(pod *v1.Pod, minReadySeconds int32, now time.Time) (available bool, wait time.Duration) {
	if !Ready(pod) {
		return false, 0
	}
	if minReadySeconds == 0 {
		return true, 0
	}
	since := ReadySince(pod)
	if since.IsZero() {
		return false, 0
	}
	wait = since.Add(time.Duration(minReadySeconds) * time.Second).Sub(now)
	return wait <= 0, max(wait, 0)
}

// Filter returns the pods for which keep holds, in order.
func Filter(all []*v1.Pod, keep func(*v1.Pod) bool) []*v1.Pod {
	var kept []*v1.Pod
	for _, pod := range all {
		if keep(pod) {
			kept = append(kept, pod)
		}
	}
	return kept
}
