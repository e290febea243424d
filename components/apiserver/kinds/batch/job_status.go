package batch

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
)

// ValidateJobStatus checks a change of the status, which must be consistent whichever controller manages the job
// (KEP-4368).
func ValidateJobStatus(new, old *batchv1.Job) field.ErrorList {
	path, s, c := field.NewPath("status"), &new.Status, changesOf(&new.Status, &old.Status)
	errs := validateStatusNumbers(s, path)
	errs = append(errs, validateUncounted(s.UncountedTerminatedPods, path.Child("uncountedTerminatedPods"))...)
	errs = append(errs, validateOutcome(s, c, path)...)
	errs = append(errs, validateFinished(new, c, path)...)
	errs = append(errs, validateStatusIndexes(new, c, path)...)
	if (c.finished || c.terminating) && finished(s) && ptr.Deref(s.Terminating, 0) > 0 {
		errs = append(errs, field.Invalid(path.Child("terminating"), *s.Terminating,
			"terminating>0 is invalid for finished job"))
	}
	if (c.ready || c.active) && s.Ready != nil && *s.Ready > s.Active {
		errs = append(errs, field.Invalid(path.Child("ready"), *s.Ready, "cannot set more ready pods than active"))
	}
	errs = append(errs, exclusive(s, path.Child("conditions"), batchv1.JobSuccessCriteriaMet, batchv1.JobFailed)...)
	errs = append(errs, exclusive(s, path.Child("conditions"), batchv1.JobSuccessCriteriaMet,
		batchv1.JobFailureTarget)...)
	if new.Spec.SuccessPolicy != nil && has(s, batchv1.JobComplete) && !has(s, batchv1.JobSuccessCriteriaMet) {
		errs = append(errs, field.Invalid(path.Child("conditions"), field.OmitValueType{},
			"cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True"))
	}
	return append(errs, validateHistory(new, old, c, path)...)
}

// changes tells what of a status a write changes. What must not be together is refused only where something of it
// changes: a status that is wrong already, perhaps as the spec has changed since, doesn't keep the rest of it from
// being written.
type changes struct {
	complete, failed, finished, target, met bool // conditions
	active, ready, terminating, uncounted   bool
	start, completion                       bool
	completedIndexes, failedIndexes         bool
}

func changesOf(s, was *batchv1.JobStatus) changes {
	condition := func(t batchv1.JobConditionType) bool { return has(s, t) != has(was, t) }
	return changes{
		complete: condition(batchv1.JobComplete), failed: condition(batchv1.JobFailed),
		finished: finished(s) != finished(was),
		target:   condition(batchv1.JobFailureTarget), met: condition(batchv1.JobSuccessCriteriaMet),
		active: s.Active != was.Active, ready: !ptr.Equal(s.Ready, was.Ready),
		terminating: !ptr.Equal(s.Terminating, was.Terminating),
		uncounted:   !apiequality.Semantic.DeepEqual(s.UncountedTerminatedPods, was.UncountedTerminatedPods),
		start:       !s.StartTime.Equal(was.StartTime), completion: !s.CompletionTime.Equal(was.CompletionTime),
		completedIndexes: s.CompletedIndexes != was.CompletedIndexes,
		failedIndexes:    !ptr.Equal(s.FailedIndexes, was.FailedIndexes),
	}
}

func finished(s *batchv1.JobStatus) bool {
	return has(s, batchv1.JobComplete) || has(s, batchv1.JobFailed)
}

func has(s *batchv1.JobStatus, t batchv1.JobConditionType) bool {
	return is(s, t, corev1.ConditionTrue)
}

func is(s *batchv1.JobStatus, t batchv1.JobConditionType, status corev1.ConditionStatus) bool {
	return slices.ContainsFunc(s.Conditions,
		func(c batchv1.JobCondition) bool { return c.Type == t && c.Status == status })
}

func validateStatusNumbers(s *batchv1.JobStatus, path *field.Path) field.ErrorList {
	errs := checks.Counts(path, checks.Count{Name: "active", Value: s.Active},
		checks.Count{Name: "succeeded", Value: s.Succeeded},
		checks.Count{Name: "failed", Value: s.Failed})
	if s.Ready != nil {
		errs = append(errs, checks.NonNegative(int64(*s.Ready), path.Child("ready"))...)
	}
	if s.Terminating != nil {
		errs = append(errs, checks.NonNegative(int64(*s.Terminating), path.Child("terminating"))...)
	}
	return errs
}

func validateUncounted(u *batchv1.UncountedTerminatedPods, path *field.Path) field.ErrorList {
	if u == nil {
		return nil
	}
	var errs field.ErrorList
	seen := map[types.UID]bool{}
	for _, list := range []struct {
		name string
		uids []types.UID
	}{{"succeeded", u.Succeeded}, {"failed", u.Failed}} {
		for i, uid := range list.uids {
			at := path.Child(list.name).Index(i)
			switch {
			case uid == "":
				errs = append(errs, field.Invalid(at, uid, "must not be empty"))
			case seen[uid]:
				errs = append(errs, field.Duplicate(at, uid))
			}
			seen[uid] = true
		}
	}
	return errs
}

// exclusive refuses two conditions that can't hold together.
func exclusive(s *batchv1.JobStatus, at *field.Path, a, b batchv1.JobConditionType) field.ErrorList {
	if !has(s, a) || !has(s, b) {
		return nil
	}
	second := fmt.Sprintf("%s=true", b)
	return field.ErrorList{field.Invalid(at, field.OmitValueType{},
		fmt.Sprintf("cannot set %s=True and %s conditions", a, second))}
}

// validateOutcome checks that a job has one outcome, the times that belong to it, and was heading for it.
func validateOutcome(s *batchv1.JobStatus, c changes, path *field.Path) field.ErrorList {
	conditions, completion := path.Child("conditions"), path.Child("completionTime")
	complete := has(s, batchv1.JobComplete)
	var errs field.ErrorList
	if c.complete || c.failed {
		errs = append(errs, exclusive(s, conditions, batchv1.JobComplete, batchv1.JobFailed)...)
	}
	if c.complete || c.target {
		errs = append(errs, exclusive(s, conditions, batchv1.JobComplete, batchv1.JobFailureTarget)...)
	}
	if (c.complete || c.completion) && s.CompletionTime != nil && !complete {
		errs = append(errs, field.Invalid(completion, s.CompletionTime,
			"cannot set completionTime when there is no Complete=True condition"))
	}
	if (c.complete || c.completion) && s.CompletionTime == nil && complete {
		errs = append(errs, field.Required(completion, "completionTime is required for Complete jobs"))
	}
	if (c.start || c.completion) && s.CompletionTime != nil && s.StartTime != nil &&
		s.CompletionTime.Before(s.StartTime) {
		errs = append(errs, field.Invalid(completion, s.CompletionTime, "must be equal to or after `startTime`"))
	}
	const without = "cannot set %s=True condition without the %s=true condition"
	if (c.failed || c.failedIndexes) && has(s, batchv1.JobFailed) && !has(s, batchv1.JobFailureTarget) {
		errs = append(errs, field.Invalid(conditions, field.OmitValueType{},
			fmt.Sprintf(without, batchv1.JobFailed, batchv1.JobFailureTarget)))
	}
	if (c.complete || c.met) && complete && !has(s, batchv1.JobSuccessCriteriaMet) {
		errs = append(errs, field.Invalid(conditions, field.OmitValueType{},
			fmt.Sprintf(without, batchv1.JobComplete, batchv1.JobSuccessCriteriaMet)))
	}
	return errs
}

// validateFinished checks that a job that is over had a start and has nothing left. One that is suspended and has
// nothing to do needs no start.
func validateFinished(j *batchv1.Job, c changes, path *field.Path) field.ErrorList {
	s := &j.Status
	if !finished(s) {
		return nil
	}
	var errs field.ErrorList
	if (c.finished || c.active) && s.Active > 0 {
		errs = append(errs, field.Invalid(path.Child("active"), s.Active, "active>0 is invalid for finished job"))
	}
	idle := ptr.Deref(j.Spec.Suspend, false) && ptr.Equal(j.Spec.Completions, new(int32))
	if (c.finished || c.start) && s.StartTime == nil && !idle {
		errs = append(errs, field.Required(path.Child("startTime"), "startTime is required for finished job"))
	}
	if u := s.UncountedTerminatedPods; (c.finished || c.uncounted) && u != nil && len(u.Failed)+len(u.Succeeded) > 0 {
		errs = append(errs, field.Invalid(path.Child("uncountedTerminatedPods"), checks.Unversioned(u),
			"must be empty for finished job"))
	}
	return errs
}

func validateStatusIndexes(j *batchv1.Job, c changes, path *field.Path) field.ErrorList {
	s := &j.Status
	completedAt, failedAt := path.Child("completedIndexes"), path.Child("failedIndexes")
	_, completedErr := parseIndexes(s.CompletedIndexes, j.Spec.Completions)
	_, failedErr := parseIndexes(ptr.Deref(s.FailedIndexes, ""), j.Spec.Completions)
	bounded := j.Spec.Completions != nil
	var errs field.ErrorList
	if c.completedIndexes && bounded && completedErr != nil {
		errs = append(errs, field.Invalid(completedAt, s.CompletedIndexes,
			"error parsing completedIndexes: "+completedErr.Error()))
	}
	if c.failedIndexes && bounded && j.Spec.BackoffLimitPerIndex != nil && failedErr != nil {
		errs = append(errs, field.Invalid(failedAt, *s.FailedIndexes,
			"error parsing failedIndexes: "+failedErr.Error()))
	}
	if c.completedIndexes && s.CompletedIndexes != "" && !indexed(&j.Spec) {
		errs = append(errs, field.Invalid(completedAt, s.CompletedIndexes,
			"cannot set non-empty completedIndexes when non-indexed completion mode"))
	}
	if c.failedIndexes && s.FailedIndexes != nil && j.Spec.BackoffLimitPerIndex == nil {
		errs = append(errs, field.Invalid(failedAt, *s.FailedIndexes,
			"cannot set non-null failedIndexes when backoffLimitPerIndex is null"))
	}
	if (c.failedIndexes || c.completedIndexes) && bounded && s.FailedIndexes != nil {
		if i, both := overlap(readable(s.CompletedIndexes, j.Spec.Completions),
			readable(*s.FailedIndexes, j.Spec.Completions)); both {
			errs = append(errs, field.Invalid(failedAt, *s.FailedIndexes,
				fmt.Sprintf("failedIndexes and completedIndexes overlap at index: %d", i)))
		}
	}
	return errs
}

// validateHistory checks that nothing is taken back.
func validateHistory(new, old *batchv1.Job, c changes, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	s, was := &new.Status, &old.Status
	undone := func(text string, types ...batchv1.JobConditionType) {
		for _, t := range types {
			if has(was, t) && !has(s, t) {
				errs = append(errs, field.Invalid(path.Child("conditions"), field.OmitValueType{},
					fmt.Sprintf("cannot disable the %s%s=True condition", text, t)))
			}
		}
	}
	undone("terminal ", batchv1.JobFailed, batchv1.JobComplete, batchv1.JobFailureTarget)
	if s.Failed < was.Failed {
		errs = append(errs, field.Invalid(path.Child("failed"), s.Failed, "cannot decrease the failed counter"))
	}
	elastic := indexed(&new.Spec) && ptr.Equal(new.Spec.Completions, new.Spec.Parallelism) // which can be scaled down
	if s.Succeeded < was.Succeeded && !elastic {
		errs = append(errs, field.Invalid(path.Child("succeeded"), s.Succeeded,
			"cannot decrease the succeeded counter"))
	}
	if c.completion && was.CompletionTime != nil && s.CompletionTime != nil {
		errs = append(errs, immutable(path.Child("completionTime"), s.CompletionTime))
	}
	resumed := has(was, batchv1.JobSuspended) && is(s, batchv1.JobSuspended, corev1.ConditionFalse) // it is resumed
	if c.start && was.StartTime != nil && !resumed && !ptr.Deref(new.Spec.Suspend, false) {
		errs = append(errs, field.Invalid(path.Child("startTime"), s.StartTime,
			"field is immutable for unsuspended job once set"))
	}
	undone("", batchv1.JobSuccessCriteriaMet)
	if has(was, batchv1.JobComplete) && !has(was, batchv1.JobSuccessCriteriaMet) &&
		has(s, batchv1.JobSuccessCriteriaMet) {
		errs = append(errs, field.Invalid(path.Child("conditions"), field.OmitValueType{},
			"cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"))
	}
	return errs
}
