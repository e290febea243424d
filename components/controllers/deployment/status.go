package deployment

import (
	"fmt"
	"slices"
	"time"

	apps "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Reasons of the Progressing and Available conditions.
const (
	newSetCreated    = "NewReplicaSetCreated"
	newSetFound      = "FoundNewReplicaSet"
	newSetAvailable  = "NewReplicaSetAvailable"
	setUpdated       = "ReplicaSetUpdated"
	setCreateError   = "ReplicaSetCreateError"
	deadlineExceeded = "ProgressDeadlineExceeded"
	paused           = "DeploymentPaused"
	resumed          = "DeploymentResumed"
	minAvailable     = "MinimumReplicasAvailable"
	minUnavailable   = "MinimumReplicasUnavailable"
)

func hasDeadline(d *apps.Deployment) bool {
	return ptr.Deref(d.Spec.ProgressDeadlineSeconds, noDeadline) != noDeadline
}

// noDeadline is what conversion from old API versions put where none was meant.
const noDeadline = 1<<31 - 1

func conditionOf(s *apps.DeploymentStatus, t apps.DeploymentConditionType) *apps.DeploymentCondition {
	for i := range s.Conditions {
		if s.Conditions[i].Type == t {
			return &s.Conditions[i]
		}
	}
	return nil
}

func (s *step) condition(t apps.DeploymentConditionType, status v1.ConditionStatus, reason,
	message string) apps.DeploymentCondition {
	now := metav1.NewTime(s.now)
	return apps.DeploymentCondition{Type: t, Status: status, Reason: reason, Message: message, LastUpdateTime: now,
		LastTransitionTime: now}
}

// set puts c in place unless it says nothing new; the time of the last transition changes with the status only.
func set(status *apps.DeploymentStatus, c apps.DeploymentCondition) {
	current := conditionOf(status, c.Type)
	if current != nil && current.Status == c.Status && current.Reason == c.Reason {
		return
	}
	replace(status, c)
}

func replace(status *apps.DeploymentStatus, c apps.DeploymentCondition) {
	if current := conditionOf(status, c.Type); current != nil && current.Status == c.Status {
		c.LastTransitionTime = current.LastTransitionTime
	}
	remove(status, c.Type)
	status.Conditions = append(status.Conditions, c)
}

func remove(status *apps.DeploymentStatus, t apps.DeploymentConditionType) {
	status.Conditions = slices.DeleteFunc(slices.Clone(status.Conditions),
		func(c apps.DeploymentCondition) bool { return c.Type == t })
}

// pausing shows in the Progressing condition that the deployment was paused or resumed, which also restarts the
// clock of its deadline.
func (s *step) pausing() {
	if !hasDeadline(s.d) || s.d.DeletionTimestamp != nil {
		return
	}
	current := conditionOf(&s.d.Status, apps.DeploymentProgressing)
	if current != nil && current.Reason == deadlineExceeded {
		return // keep what it has to say
	}
	isPaused := current != nil && current.Reason == paused
	switch {
	case s.d.Spec.Paused && !isPaused:
		set(&s.d.Status, s.condition(apps.DeploymentProgressing, v1.ConditionUnknown, paused, "Deployment is paused"))
	case !s.d.Spec.Paused && isPaused:
		set(&s.d.Status, s.condition(apps.DeploymentProgressing, v1.ConditionUnknown, resumed, "Deployment is resumed"))
	}
}

// summary counts the pods of all sets.
func (s *step) summary() apps.DeploymentStatus {
	next := apps.DeploymentStatus{
		ObservedGeneration: s.d.Generation,
		CollisionCount:     s.d.Status.CollisionCount,
		Conditions:         slices.Clone(s.d.Status.Conditions),
	}
	terminating, known := int32(0), true
	for _, set := range s.sets {
		next.Replicas += set.Status.Replicas
		next.ReadyReplicas += set.Status.ReadyReplicas
		next.AvailableReplicas += set.Status.AvailableReplicas
		if set.Status.TerminatingReplicas != nil {
			terminating += *set.Status.TerminatingReplicas
		} else if set != s.plan.create {
			known = false // a count that leaves some out would lie
		}
	}
	if known {
		next.TerminatingReplicas = &terminating
	}
	if s.newSet != nil {
		next.UpdatedReplicas = s.newSet.Status.Replicas
	}
	next.UnavailableReplicas = max(total(s.sets)-next.AvailableReplicas, 0)
	_, unavailable := bounds(s.d)
	if next.AvailableReplicas >= replicas(s.d)-unavailable {
		set(&next, s.condition(apps.DeploymentAvailable, v1.ConditionTrue, minAvailable,
			"Deployment has minimum availability."))
	} else {
		set(&next, s.condition(apps.DeploymentAvailable, v1.ConditionFalse, minUnavailable,
			"Deployment does not have minimum availability."))
	}
	return next
}

// complete tells whether all pods are of the current template and available.
func complete(d *apps.Deployment, s *apps.DeploymentStatus) bool {
	want := replicas(d)
	return s.UpdatedReplicas == want && s.Replicas == want && s.AvailableReplicas == want &&
		s.ObservedGeneration >= d.Generation
}

func (s *step) advanced(next *apps.DeploymentStatus) bool {
	old := &s.d.Status
	return next.UpdatedReplicas > old.UpdatedReplicas ||
		next.Replicas-next.UpdatedReplicas < old.Replicas-old.UpdatedReplicas ||
		next.ReadyReplicas > old.ReadyReplicas ||
		next.AvailableReplicas > old.AvailableReplicas
}

// progress tells in the conditions how the rollout goes.
func (s *step) progress(next apps.DeploymentStatus) apps.DeploymentStatus {
	if !hasDeadline(s.d) {
		remove(&next, apps.DeploymentProgressing)
		return s.failures(next)
	}
	if s.created {
		set(&next, s.condition(apps.DeploymentProgressing, v1.ConditionTrue, newSetCreated,
			fmt.Sprintf("Created new replica set %q", s.newSet.Name)))
	} else if s.newSet != nil && conditionOf(&next, apps.DeploymentProgressing) == nil {
		set(&next, s.condition(apps.DeploymentProgressing, v1.ConditionTrue, newSetFound,
			fmt.Sprintf("Found new replica set %q", s.newSet.Name)))
	}
	subject := fmt.Sprintf("Deployment %q", s.d.Name)
	if s.newSet != nil {
		subject = fmt.Sprintf("ReplicaSet %q", s.newSet.Name)
	}
	current := conditionOf(&s.d.Status, apps.DeploymentProgressing)
	resting := next.Replicas == next.UpdatedReplicas && current != nil && current.Reason == newSetAvailable
	switch {
	case resting && !s.created:
	case complete(s.d, &next):
		set(&next, s.condition(apps.DeploymentProgressing, v1.ConditionTrue, newSetAvailable,
			subject+" has successfully progressed."))
	case s.advanced(&next):
		replace(&next, s.condition(apps.DeploymentProgressing, v1.ConditionTrue, setUpdated,
			subject+" is progressing."))
	case s.late(&next):
		set(&next, s.condition(apps.DeploymentProgressing, v1.ConditionFalse, deadlineExceeded,
			subject+" has timed out progressing."))
	}
	return s.failures(next)
}

// failures shows why pods can't be made, as the sets say; those of the new set take precedence.
func (s *step) failures(next apps.DeploymentStatus) apps.DeploymentStatus {
	var failure *apps.ReplicaSetCondition
	for _, set := range append(slices.Clone(s.sets), s.newSet) {
		if set == nil {
			continue
		}
		for i, c := range set.Status.Conditions {
			if c.Type == apps.ReplicaSetReplicaFailure {
				failure = &set.Status.Conditions[i]
			}
		}
	}
	if failure == nil {
		remove(&next, apps.DeploymentReplicaFailure)
		return next
	}
	set(&next, apps.DeploymentCondition{
		Type: apps.DeploymentReplicaFailure, Status: failure.Status, Reason: failure.Reason, Message: failure.Message,
		LastTransitionTime: failure.LastTransitionTime, LastUpdateTime: failure.LastTransitionTime,
	})
	return next
}

func (s *step) deadline() time.Duration {
	return time.Duration(*s.d.Spec.ProgressDeadlineSeconds) * time.Second
}

// late tells whether nothing has advanced for longer than the deadline.
func (s *step) late(next *apps.DeploymentStatus) bool {
	c := conditionOf(next, apps.DeploymentProgressing)
	switch {
	case c == nil || c.Reason == newSetAvailable:
		return false
	case c.Reason == deadlineExceeded:
		return true
	}
	return c.LastUpdateTime.Add(s.deadline()).Before(s.now)
}

// untilDeadline is when the clock alone may make the deployment late; a second is added as times are stored in whole
// ones.
func (s *step) untilDeadline(next *apps.DeploymentStatus) time.Duration {
	c := conditionOf(next, apps.DeploymentProgressing)
	if !hasDeadline(s.d) || c == nil || complete(s.d, next) || c.Reason == deadlineExceeded ||
		c.Reason == newSetAvailable {
		return 0
	}
	return max(c.LastUpdateTime.Add(s.deadline()).Sub(s.now), 0) + time.Second
}
