package disruption

import (
	"time"

	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"quintet.dev/quintet/components/controllers/pods"
)

// deletionTimeout is how long the deletion of an evicted pod may take to be observed; after that it counts as failed.
const deletionTimeout = 2 * time.Minute

// observed is all that a decision depends on.
type observed struct {
	budget *policy.PodDisruptionBudget
	pods   []*v1.Pod
	// scale is the number of pods that the owners of pods want together; only budgets in shares, or of what may be
	// missing, need it.
	scale int32
	now   time.Time
}

// needsScale tells whether observed.scale matters to the budget.
func needsScale(budget *policy.PodDisruptionBudget) bool {
	minimum := budget.Spec.MinAvailable
	return budget.Spec.MaxUnavailable != nil || (minimum != nil && minimum.Type == intstr.String)
}

// plan is the budget's next status, without its conditions. late are the pods whose granted eviction never came.
type plan struct {
	status policy.PodDisruptionBudgetStatus
	late   []string
	again  time.Duration
}

func decide(o observed) (plan, error) {
	expected, desired, err := o.wants()
	if err != nil {
		return plan{}, err
	}
	p := o.disrupted()
	p.status.ObservedGeneration = o.budget.Generation
	p.status.Conditions = o.budget.Status.Conditions
	p.status.ExpectedPods = expected
	p.status.DesiredHealthy = desired
	for _, pod := range o.pods {
		_, leaving := p.status.DisruptedPods[pod.Name]
		if pod.DeletionTimestamp == nil && !leaving && pods.Ready(pod) {
			p.status.CurrentHealthy++
		}
	}
	if expected > 0 {
		p.status.DisruptionsAllowed = max(p.status.CurrentHealthy-desired, 0)
	}
	return p, nil
}

// wants computes how many pods there should be, and how many of them healthy
// (https://kubernetes.io/docs/tasks/run-application/configure-pdb/).
func (o observed) wants() (expected, desired int32, err error) {
	spec := o.budget.Spec
	switch {
	case spec.MaxUnavailable != nil:
		missing, err := intstr.GetScaledValueFromIntOrPercent(spec.MaxUnavailable, int(o.scale), true)
		if err != nil {
			return 0, 0, err
		}
		return o.scale, max(o.scale-int32(missing), 0), nil
	case spec.MinAvailable != nil && spec.MinAvailable.Type == intstr.String:
		needed, err := intstr.GetScaledValueFromIntOrPercent(spec.MinAvailable, int(o.scale), true)
		return o.scale, int32(needed), err
	case spec.MinAvailable != nil:
		return int32(len(o.pods)), spec.MinAvailable.IntVal, nil
	}
	return 0, 0, nil // a budget that asks for nothing allows no eviction
}

// untilStale tells how long the DisruptionTarget condition of a pod still counts while nothing deletes the pod; marked
// is false if there is no such condition to take back. The kubelet's own announcements never become outdated: an end in
// the node's shutdown may take as long as it wants.
func untilStale(pod *v1.Pod, now time.Time) (wait time.Duration, marked bool) {
	c := pods.Condition(pod, v1.DisruptionTarget)
	if pod.DeletionTimestamp != nil || pods.Ended(pod) || c == nil || c.Status != v1.ConditionTrue ||
		c.Reason == v1.PodReasonTerminationByKubelet {
		return 0, false
	}
	return max(c.LastTransitionTime.Add(deletionTimeout).Sub(now), 0), true
}

// withoutDisruption returns a copy of the pod whose DisruptionTarget condition is False.
func withoutDisruption(pod *v1.Pod, now time.Time) *v1.Pod {
	changed := pod.DeepCopy()
	*pods.Condition(changed, v1.DisruptionTarget) = v1.PodCondition{
		Type: v1.DisruptionTarget, Status: v1.ConditionFalse, ObservedGeneration: pod.Generation,
		LastTransitionTime: metav1.NewTime(now),
	}
	return changed
}

// disrupted keeps the evictions that were granted and have not shown yet.
func (o observed) disrupted() plan {
	p := plan{}
	alive := map[string]bool{}
	for _, pod := range o.pods {
		alive[pod.Name] = pod.DeletionTimestamp == nil
	}
	for name, granted := range o.budget.Status.DisruptedPods {
		if !alive[name] {
			continue
		}
		left := granted.Add(deletionTimeout).Sub(o.now)
		if left <= 0 {
			p.late = append(p.late, name)
			continue
		}
		if p.status.DisruptedPods == nil {
			p.status.DisruptedPods = map[string]metav1.Time{}
		}
		p.status.DisruptedPods[name] = granted
		if p.again == 0 || left < p.again {
			p.again = left
		}
	}
	return p
}
