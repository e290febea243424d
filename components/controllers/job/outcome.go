package job

import (
	"maps"
	"slices"
	"strconv"
	"time"

	batch "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/controllers/pods"
)

func (s *step) at() *metav1.Time {
	return ptr.To(metav1.NewTime(s.now))
}

func has(status *batch.JobStatus, t batch.JobConditionType) bool {
	c := find(status, t)
	return c != nil && c.Status == v1.ConditionTrue
}

func find(status *batch.JobStatus, t batch.JobConditionType) *batch.JobCondition {
	for i := range status.Conditions {
		if status.Conditions[i].Type == t {
			return &status.Conditions[i]
		}
	}
	return nil
}

func (s *step) set(t batch.JobConditionType, status v1.ConditionStatus, reason, message string) {
	next := batch.JobCondition{Type: t, Status: status, Reason: reason, Message: message, LastProbeTime: *s.at(),
		LastTransitionTime: *s.at()}
	current := find(&s.plan.status, t)
	switch {
	case current == nil:
		s.plan.status.Conditions = append(s.plan.status.Conditions, next)
	case current.Status != status || current.Reason != reason:
		*current = next
	}
}

// decideOutcome decides whether the job continues, and with which pods.
func (s *step) decideOutcome() {
	decided := has(&s.plan.status, batch.JobFailureTarget) || has(&s.plan.status, batch.JobSuccessCriteriaMet)
	if !decided {
		if reason, message := s.failure(); reason != "" {
			s.set(batch.JobFailureTarget, v1.ConditionTrue, reason, message)
			decided = true
		} else if reason, message := s.success(); reason != "" {
			s.set(batch.JobSuccessCriteriaMet, v1.ConditionTrue, reason, message)
			decided = true
		}
	}
	switch {
	case decided:
		s.endAll()
	case ptr.Deref(s.job.Spec.Suspend, false):
		s.suspend()
	default:
		s.resume()
		s.scale()
		s.watchDeadline()
	}
}

// failure tells why the job has failed; nothing if it has not.
func (s *step) failure() (reason, message string) {
	limit := ptr.Deref(s.job.Spec.BackoffLimit, 6)
	switch {
	case s.failJob != "":
		return batch.JobReasonPodFailurePolicy, s.failJob
	case s.failed > limit || s.restartedTooOften(limit):
		return batch.JobReasonBackoffLimitExceeded, "Job has reached the specified backoff limit"
	case s.untilDeadline() < 0:
		return batch.JobReasonDeadlineExceeded, "Job was active longer than specified deadline"
	}
	if s.job.Spec.BackoffLimitPerIndex == nil {
		return "", ""
	}
	switch bad := s.badIndexes.count(); {
	case s.job.Spec.MaxFailedIndexes != nil && bad > int(*s.job.Spec.MaxFailedIndexes):
		return batch.JobReasonMaxFailedIndexesExceeded,
			"Job has exceeded the specified maximal number of failed indexes"
	case bad > 0 && bad+s.doneIndexes.count() >= s.completions:
		return batch.JobReasonFailedIndexes, "Job has failed indexes"
	}
	return "", ""
}

// restartedTooOften tells whether containers were restarted in place as often as the limit allows pods to fail: with
// restart policy OnFailure no pod ever does. A limit of 0 allows no restart, as does 1.
func (s *step) restartedTooOften(limit int32) bool {
	if s.job.Spec.Template.Spec.RestartPolicy != v1.RestartPolicyOnFailure {
		return false
	}
	var n int32
	for _, pod := range s.active {
		for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			n += status.RestartCount
		}
	}
	return n >= max(limit, 1)
}

func (s *step) untilDeadline() time.Duration {
	limit, started := s.job.Spec.ActiveDeadlineSeconds, s.job.Status.StartTime
	if limit == nil || started == nil || ptr.Deref(s.job.Spec.Suspend, false) {
		return 0
	}
	left := started.Add(time.Duration(*limit) * time.Second).Sub(s.now)
	if left <= 0 {
		return -1
	}
	return left
}

func (s *step) watchDeadline() {
	if left := s.untilDeadline(); left > 0 {
		s.wake(left)
	}
}

func (s *step) wake(after time.Duration) {
	if s.plan.again == 0 || after < s.plan.again {
		s.plan.again = after
	}
}

func (s *step) success() (reason, message string) {
	if isIndexed(s.job) {
		if message, met := fulfilled(s.job.Spec.SuccessPolicy, s.completions, s.doneIndexes); met {
			return batch.JobReasonSuccessPolicy, message
		}
	}
	enough := s.succeeded >= int32(s.completions)
	if s.job.Spec.Completions == nil { // a work queue: one success tells that there is no more work
		enough = s.succeeded > 0 && len(s.active) == 0
	}
	if !enough {
		return "", ""
	}
	return batch.JobReasonCompletionsReached, "Reached expected number of succeeded pods"
}

// endAll ends the pods of a job whose outcome is decided. If it failed, pods that have not ended count as failed;
// otherwise they don't count.
func (s *step) endAll() {
	s.plan.delete = s.active
	failed := !has(&s.plan.status, batch.JobSuccessCriteriaMet)
	uncounted := s.plan.status.UncountedTerminatedPods
	for _, pod := range s.pods {
		waits := pods.Active(pod) || s.replacesOnlyFailed() && pods.Terminating(pod)
		if !waits || !tracked(pod) || len(s.plan.release) >= burst {
			continue
		}
		inRange := !isIndexed(s.job) || indexOf(pod, s.job) >= 0
		if failed && inRange && !slices.Contains(uncounted.Failed, pod.UID) {
			uncounted.Failed = append(uncounted.Failed, pod.UID)
		}
		s.plan.release = append(s.plan.release, pod)
	}
}

// dismiss deletes pods that have not failed: they are not counted.
func (s *step) dismiss(unneeded []*v1.Pod) {
	s.plan.delete = unneeded
	for _, pod := range unneeded {
		if tracked(pod) {
			s.plan.release = append(s.plan.release, pod)
		}
	}
}

func (s *step) suspend() {
	s.dismiss(s.active)
	s.plan.status.StartTime = nil // resumed, the job has its whole deadline again
	if !has(&s.plan.status, batch.JobSuspended) {
		s.set(batch.JobSuspended, v1.ConditionTrue, "JobSuspended", "Job suspended")
		s.plan.events = append(s.plan.events, event{v1.EventTypeNormal, "Suspended", "Job suspended"})
	}
}

func (s *step) resume() {
	if has(&s.plan.status, batch.JobSuspended) {
		s.set(batch.JobSuspended, v1.ConditionFalse, "JobResumed", "Job resumed")
		s.plan.status.StartTime = s.at() // the deadline counts from here
		s.plan.events = append(s.plan.events, event{v1.EventTypeNormal, "Resumed", "Job resumed"})
	}
}

// scale brings the number of active pods to parallelism, or the remaining completions.
func (s *step) scale() {
	if !s.expectationsMet || s.job.DeletionTimestamp != nil {
		return
	}
	parallelism := int(ptr.Deref(s.job.Spec.Parallelism, 1))
	want := parallelism
	switch {
	case s.job.Spec.Completions != nil:
		want = min(parallelism, s.completions-int(s.succeeded)-s.badIndexes.count())
	case s.succeeded > 0:
		want = min(len(s.active), parallelism)
	}
	if surplus := s.surplus(len(s.active) - max(want, 0)); len(surplus) > 0 {
		s.dismiss(surplus)
		return
	}
	occupied := len(s.active)
	if s.replacesOnlyFailed() {
		occupied += s.terminating
	}
	missing := min(want-occupied, burst)
	if missing <= 0 {
		return
	}
	if isIndexed(s.job) {
		s.createIndexed(missing)
		return
	}
	if wait := s.backoff(s.pods, s.allDeletions()); wait > 0 {
		s.wake(wait)
		return
	}
	for range missing {
		s.plan.create = append(s.plan.create, newPod{index: -1})
	}
}

// createIndexed makes pods of the lowest indexes that have neither a pod nor a result.
func (s *step) createIndexed(count int) {
	var active []run
	byIndex := map[int][]*v1.Pod{}
	for _, pod := range s.pods {
		i := indexOf(pod, s.job)
		if i < 0 {
			continue
		}
		byIndex[i] = append(byIndex[i], pod)
		if pods.Active(pod) || (s.replacesOnlyFailed() && pods.Terminating(pod)) {
			active = append(active, run{i, i})
		}
	}
	taken := collect(active)
	perIndex := s.job.Spec.BackoffLimitPerIndex != nil
	if wait := s.backoff(s.pods, s.allDeletions()); !perIndex && wait > 0 {
		s.wake(wait)
		return
	}
	next := func(i int) int { return free(i, s.doneIndexes, s.badIndexes, taken) }
	for i := next(0); i < s.completions && count > 0; i = next(i + 1) {
		before := 0
		if perIndex {
			for _, pod := range byIndex[i] {
				before = max(before, failures(pod)+1)
			}
			if wait := s.backoff(byIndex[i], nil); wait > 0 {
				s.wake(wait)
				continue
			}
		}
		s.plan.create = append(s.plan.create, newPod{index: i, failures: before})
		count--
	}
}

// failures is how many pods of the same index failed before this one.
func failures(pod *v1.Pod) int {
	n, err := strconv.Atoi(pod.Annotations[batch.JobIndexFailureCountAnnotation])
	if err != nil {
		return 0
	}
	return n
}

// backoff is how long to wait before replacing failed pods: it doubles with each failure since the last success. Those
// that counted as failed because they were deleted are among them, though they may be gone.
func (s *step) backoff(of []*v1.Pod, deletions deletions) time.Duration {
	var lastFailure, lastSuccess time.Time
	failures := maps.Clone(deletions)
	if failures == nil {
		failures = map[types.UID]time.Time{}
	}
	for _, pod := range of {
		switch pod.Status.Phase {
		case v1.PodSucceeded:
			if ended := endOf(pod); ended.After(lastSuccess) {
				lastSuccess = ended
			}
		case v1.PodFailed:
			failures[pod.UID] = endOf(pod)
		}
	}
	wait := time.Duration(0)
	for _, ended := range failures {
		if ended.After(lastFailure) {
			lastFailure = ended
		}
		if !ended.Before(lastSuccess) {
			wait = min(max(2*wait, firstBackoff), longestBackoff)
		}
	}
	if wait == 0 {
		return 0
	}
	return max(lastFailure.Add(wait).Sub(s.now), 0)
}

// endOf is when the last container of the pod ended, or the best guess.
func endOf(pod *v1.Pod) time.Time {
	var last time.Time
	for _, status := range pod.Status.ContainerStatuses {
		if t := status.State.Terminated; t != nil && t.FinishedAt.After(last) {
			last = t.FinishedAt.Time
		}
	}
	if !last.IsZero() {
		return last
	}
	if c := pods.Condition(pod, v1.PodReady); c != nil && c.Status == v1.ConditionFalse {
		return c.LastTransitionTime.Time
	}
	if pod.DeletionTimestamp != nil { // it has the grace period in it
		grace := ptr.Deref(pod.DeletionGracePeriodSeconds, 0)
		return pod.DeletionTimestamp.Add(-time.Duration(grace) * time.Second)
	}
	return pod.CreationTimestamp.Time
}

// finish ends the job once its outcome is decided, all its pods have ended, and all are counted.
func (s *step) finish() {
	st := &s.plan.status
	target, final := find(st, batch.JobSuccessCriteriaMet), batch.JobComplete
	if target == nil || target.Status != v1.ConditionTrue {
		target, final = find(st, batch.JobFailureTarget), batch.JobFailed
	}
	if target == nil || target.Status != v1.ConditionTrue || !s.expectationsMet {
		return
	}
	waiting := len(s.active) + s.terminating + len(st.UncountedTerminatedPods.Succeeded) +
		len(st.UncountedTerminatedPods.Failed)
	if waiting > 0 {
		return
	}
	s.set(final, v1.ConditionTrue, target.Reason, target.Message)
	kind, reason, message := v1.EventTypeWarning, target.Reason, target.Message
	if final == batch.JobComplete {
		st.CompletionTime = s.at()
		kind, reason, message = v1.EventTypeNormal, "Completed", "Job completed"
	}
	s.plan.events = append(s.plan.events, event{kind, reason, message})
}
