package job

import (
	"slices"
	"time"

	batch "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/controllers/pods"
)

const (
	// burst is how many pods one reconciliation creates or counts at most.
	burst = 500
	// firstBackoff and longestBackoff bound the wait after failures, which doubles with each.
	firstBackoff   = 10 * time.Second
	longestBackoff = 10 * time.Minute
)

// observed is all that a decision depends on.
type observed struct {
	job *batch.Job
	// pods are those the job controls, ended ones too.
	pods []*v1.Pod
	// expectationsMet is false while earlier writes have not been observed: then the pods can't be counted on.
	expectationsMet bool
	// deletions are the pods that counted as failed before because they were deleted.
	deletions deletions
	now       time.Time
}

// plan is what to do: first write the status, then let go of the pods that it counts, then delete and create.
type plan struct {
	status  batch.JobStatus
	release []*v1.Pod // take the tracking finalizer off
	delete  []*v1.Pod
	create  []newPod
	// deletions are pods that count as failed from now on because they are deleted.
	deletions deletions
	again     time.Duration // when to requeue without an event; 0: never
	events    []event
}

type newPod struct {
	index    int // -1: none
	failures int // of this index before
}

type event struct {
	kind, reason, message string
}

// step is the state of one decision.
type step struct {
	observed
	job         *batch.Job
	completions int
	plan        plan
	active      []*v1.Pod
	terminating int
	ready       int32
	succeeded   int32
	failed      int32
	doneIndexes indexes
	badIndexes  indexes
	failJob     string // message of a pod failure policy that ends the job
}

func decide(o observed) plan {
	s := &step{observed: o, job: o.job, completions: int(ptr.Deref(o.job.Spec.Completions, 0))}
	s.plan.status = *o.job.Status.DeepCopy()
	if finished(o.job) {
		for _, pod := range o.pods {
			if tracked(pod) {
				s.plan.release = append(s.plan.release, pod)
			}
		}
		return s.plan
	}
	s.start()
	s.count()
	s.decideOutcome()
	s.summarize()
	s.finish()
	return s.plan
}

func finished(job *batch.Job) bool {
	return has(&job.Status, batch.JobComplete) || has(&job.Status, batch.JobFailed)
}

// tracked pods are not yet counted for good.
func tracked(pod *v1.Pod) bool { return slices.Contains(pod.Finalizers, batch.JobTrackingFinalizer) }

func (s *step) start() {
	if s.plan.status.StartTime == nil && !ptr.Deref(s.job.Spec.Suspend, false) {
		s.plan.status.StartTime = s.at()
	}
	if s.plan.status.UncountedTerminatedPods == nil {
		s.plan.status.UncountedTerminatedPods = &batch.UncountedTerminatedPods{}
	}
}

// count sorts the pods and moves ended ones from uncounted to counted: a pod is in the status before its finalizer
// goes, and counted only after, so that none is counted twice or lost.
func (s *step) count() {
	st := &s.plan.status
	s.doneIndexes = parseIndexes(st.CompletedIndexes, s.completions)
	s.badIndexes = parseIndexes(ptr.Deref(st.FailedIndexes, ""), s.completions)
	held := map[types.UID]bool{}
	for _, pod := range s.pods {
		if tracked(pod) {
			held[pod.UID] = true
		}
	}
	settle := func(list *[]types.UID, counter *int32) {
		*list = slices.DeleteFunc(slices.Clone(*list), func(uid types.UID) bool {
			if !held[uid] {
				*counter++
			}
			return !held[uid]
		})
	}
	settle(&st.UncountedTerminatedPods.Succeeded, &st.Succeeded)
	settle(&st.UncountedTerminatedPods.Failed, &st.Failed)
	for _, pod := range s.pods {
		s.sort(pod)
	}
	s.succeeded = st.Succeeded + int32(len(st.UncountedTerminatedPods.Succeeded))
	if isIndexed(s.job) {
		st.CompletedIndexes = s.doneIndexes.String()
		s.succeeded = int32(s.doneIndexes.count())
		st.Succeeded = s.succeeded
		if s.job.Spec.BackoffLimitPerIndex != nil {
			st.FailedIndexes = ptr.To(s.badIndexes.String())
		}
	}
	s.failed = st.Failed + int32(len(st.UncountedTerminatedPods.Failed))
}

func (s *step) sort(pod *v1.Pod) {
	if pods.Active(pod) {
		s.active = append(s.active, pod)
		if pods.Ready(pod) {
			s.ready++
		}
		return
	}
	if pods.Terminating(pod) {
		s.terminating++
	}
	uncounted := s.plan.status.UncountedTerminatedPods
	if !tracked(pod) || len(s.plan.release) >= burst {
		return
	}
	switch {
	case pod.Status.Phase == v1.PodSucceeded:
		if isIndexed(s.job) {
			if i := indexOf(pod, s.job); i >= 0 {
				s.doneIndexes = s.doneIndexes.with(i)
			}
		} else if !slices.Contains(uncounted.Succeeded, pod.UID) {
			uncounted.Succeeded = append(uncounted.Succeeded, pod.UID)
		}
	case pod.Status.Phase == v1.PodFailed || !s.replacesOnlyFailed():
		s.sortFailed(pod, uncounted)
	default:
		return // still on its way to an end
	}
	s.plan.release = append(s.plan.release, pod)
}

func (s *step) sortFailed(pod *v1.Pod, uncounted *batch.UncountedTerminatedPods) {
	if slices.Contains(uncounted.Failed, pod.UID) {
		return
	}
	action, message := batch.PodFailurePolicyActionCount, ""
	if pod.Status.Phase == v1.PodFailed {
		action, message = failureAction(s.job.Spec.PodFailurePolicy, pod)
	}
	index := indexOf(pod, s.job)
	switch action {
	case batch.PodFailurePolicyActionIgnore:
		return
	case batch.PodFailurePolicyActionFailJob:
		s.failJob = message
	case batch.PodFailurePolicyActionFailIndex:
		if index >= 0 {
			s.badIndexes = s.badIndexes.with(index)
		}
	}
	if limit := s.job.Spec.BackoffLimitPerIndex; limit != nil && index >= 0 && failures(pod)+1 > int(*limit) {
		s.badIndexes = s.badIndexes.with(index)
	}
	uncounted.Failed = append(uncounted.Failed, pod.UID)
	if pods.Terminating(pod) {
		if s.plan.deletions == nil {
			s.plan.deletions = deletions{}
		}
		s.plan.deletions[pod.UID] = endOf(pod)
	}
}

// replacesOnlyFailed tells whether a pod that is being deleted is replaced only after its end.
func (s *step) replacesOnlyFailed() bool {
	return ptr.Deref(s.job.Spec.PodReplacementPolicy, batch.TerminatingOrFailed) == batch.Failed
}

// summarize fills in the counters, after decideOutcome has selected the pods to delete.
func (s *step) summarize() {
	st := &s.plan.status
	going := len(s.plan.delete)
	st.Active = int32(len(s.active) - going)
	st.Terminating = ptr.To(int32(s.terminating + going))
	st.Ready = ptr.To(s.ready)
	if going > 0 {
		ready := s.ready
		for _, pod := range s.plan.delete {
			if pods.Ready(pod) {
				ready--
			}
		}
		st.Ready = &ready
	}
}
