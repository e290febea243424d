package why

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func (s *Snapshot) job(j *batchv1.Job) (State, []Cause) {
	for _, c := range j.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			continue
		}
		switch c.Type {
		case batchv1.JobComplete:
			return Complete, nil
		case batchv1.JobFailed:
			return Failed, []Cause{s.failedJob(j, c)}
		case batchv1.JobSuspended:
			return Pending, []Cause{{Reason: "Suspended", Message: "It is suspended.",
				Help: "Set spec.suspend to false."}}
		}
	}
	causes := s.podCauses(controlledBy(j.UID))
	if e := s.lastEvent(j.UID, "FailedCreate"); e != nil && j.Status.Active == 0 {
		causes = append(causes, notCreated(e.Message))
	}
	if j.Status.Failed > 0 {
		causes = append(causes, Cause{Reason: "PodsFailed", Message: fmt.Sprintf("%d pods failed; it fails at %d.",
			j.Status.Failed, ptr.Deref(j.Spec.BackoffLimit, 6)+1)})
	}
	if len(causes) == 0 {
		causes = []Cause{{Reason: "Running", Message: fmt.Sprintf("%d pods run, %d of %d have succeeded.", j.Status.Active,
			j.Status.Succeeded, ptr.Deref(j.Spec.Completions, 1))}}
	}
	return Pending, causes
}

// failedJob is why a Job failed, with the ends of its failed pods.
func (s *Snapshot) failedJob(j *batchv1.Job, c batchv1.JobCondition) Cause {
	cause := Cause{Reason: or(c.Reason, "Failed"), Message: or(c.Message, "It failed.")}
	for i := range s.Pods {
		if p := &s.Pods[i]; controlledBy(j.UID)(p) && p.Status.Phase == corev1.PodFailed {
			for _, of := range failedPod(p) {
				cause.Causes = append(cause.Causes, about("Pod", p, of))
			}
		}
	}
	cause.Causes = unite(cause.Causes)
	switch {
	case c.Reason == batchv1.JobReasonDeadlineExceeded:
		cause.Help = "Raise activeDeadlineSeconds."
	case len(cause.Causes) == 0 && c.Reason == batchv1.JobReasonBackoffLimitExceeded:
		cause.Help = "Its pods are gone; with restartPolicy: Never they stay, and their logs with them."
	}
	return cause
}

func (s *Snapshot) cronJob(c *batchv1.CronJob) (State, []Cause) {
	if ptr.Deref(c.Spec.Suspend, false) {
		return Pending, []Cause{{Reason: "Suspended", Message: "It is suspended.", Help: "Set spec.suspend to false."}}
	}
	if e := s.lastEvent(c.UID, "UnparseableSchedule", "InvalidSchedule", "UnknownTimeZone", "FailedCreate",
		"TooManyMissedTimes", "FailedNeedsStart"); e != nil && !later(c.Status.LastScheduleTime, e) {
		if e.Reason == "FailedCreate" {
			return Failed, []Cause{notCreated(e.Message)}
		}
		return Failed, []Cause{{Reason: e.Reason, Message: e.Message, Help: "Correct spec.schedule or spec.timeZone."}}
	}
	var jobs []*batchv1.Job
	for i := range s.Jobs {
		if metav1.IsControlledBy(&s.Jobs[i], c) {
			jobs = append(jobs, &s.Jobs[i])
		}
	}
	if len(jobs) == 0 {
		return Ready, nil
	}
	last := slices.MaxFunc(jobs, func(a, b *batchv1.Job) int {
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	})
	if state, causes := s.job(last); state == Failed {
		return Failed, []Cause{about("Job", last, Cause{Reason: "LastJobFailed", Message: "Its last Job failed.",
			Causes: causes})}
	}
	return Ready, nil
}

// later tells whether a CronJob was carried out after an event.
func later(done *metav1.Time, e *corev1.Event) bool { return done != nil && done.After(at(e)) }
