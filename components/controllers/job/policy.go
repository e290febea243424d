package job

import (
	"fmt"
	"slices"

	batch "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// failureAction applies the pod failure policy to a failed pod: the first matching rule counts
// (https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-failure-policy). message explains FailJob.
func failureAction(policy *batch.PodFailurePolicy, pod *v1.Pod) (action batch.PodFailurePolicyAction, message string) {
	if policy == nil {
		return batch.PodFailurePolicyActionCount, ""
	}
	for i, rule := range policy.Rules {
		if rule.OnExitCodes != nil {
			if container := matchExit(rule.OnExitCodes, pod); container != nil {
				return rule.Action, fmt.Sprintf("Container %s for pod %s/%s failed with exit code %v matching %v rule at index %d",
					container.Name, pod.Namespace, pod.Name, container.State.Terminated.ExitCode, rule.Action, i)
			}
		}
		for _, pattern := range rule.OnPodConditions {
			for _, c := range pod.Status.Conditions {
				if c.Type == pattern.Type && c.Status == ptr.Deref(&pattern.Status, v1.ConditionTrue) {
					return rule.Action, fmt.Sprintf("Pod %s/%s has condition %v matching %v rule at index %d",
						pod.Namespace, pod.Name, c.Type, rule.Action, i)
				}
			}
		}
	}
	return batch.PodFailurePolicyActionCount, ""
}

func matchExit(rule *batch.PodFailurePolicyOnExitCodesRequirement, pod *v1.Pod) *v1.ContainerStatus {
	all := slices.Concat(pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses)
	for i := range all {
		status := &all[i]
		if rule.ContainerName != nil && *rule.ContainerName != status.Name {
			continue
		}
		if status.State.Terminated == nil || status.State.Terminated.ExitCode == 0 {
			continue
		}
		listed := slices.Contains(rule.Values, status.State.Terminated.ExitCode)
		if listed == (rule.Operator == batch.PodFailurePolicyOnExitCodesOpIn) {
			return status
		}
	}
	return nil
}

// fulfilled tells which rule of the success policy the succeeded indexes meet
// (https://kubernetes.io/docs/concepts/workloads/controllers/job/#success-policy).
func fulfilled(policy *batch.SuccessPolicy, completions int, succeeded indexes) (message string, met bool) {
	if policy == nil {
		return "", false
	}
	for i, rule := range policy.Rules {
		done := succeeded
		needed := int32(0)
		if rule.SucceededIndexes != nil {
			wanted := parseIndexes(*rule.SucceededIndexes, completions)
			done = succeeded.common(wanted)
			needed = int32(wanted.count())
		}
		if rule.SucceededCount != nil {
			needed = *rule.SucceededCount
		}
		if needed > 0 && int32(done.count()) >= needed {
			return fmt.Sprintf("Matched rules at index %d", i), true
		}
	}
	return "", false
}
