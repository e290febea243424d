package pods

import (
	"encoding/json"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DisruptionPatch is a strategic merge patch of the status that tells why the control plane is about to delete the
// pod (https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions). With fail it also
// sets the phase Failed, as no kubelet is left to do so.
func DisruptionPatch(pod *v1.Pod, reason, message string, fail bool, now time.Time) []byte {
	condition := v1.PodCondition{
		Type:               v1.DisruptionTarget,
		ObservedGeneration: pod.Generation,
		Status:             v1.ConditionTrue,
		Reason:             reason,
		Message:            message,
		LastTransitionTime: metav1.NewTime(now),
	}
	if old := Condition(pod, v1.DisruptionTarget); old != nil && old.Status == v1.ConditionTrue {
		condition.LastTransitionTime = old.LastTransitionTime
	}
	status := map[string]any{"conditions": []v1.PodCondition{condition}}
	if fail && !Ended(pod) {
		status["phase"] = v1.PodFailed
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": status})
	if err != nil {
		panic(err) // plain values always marshal
	}
	return patch
}

// FailPatch is a strategic merge patch of the status that ends the pod.
func FailPatch(pod *v1.Pod) []byte {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status":   map[string]any{"phase": v1.PodFailed},
	})
	if err != nil {
		panic(err) // plain values always marshal
	}
	return patch
}
