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

// ValidateJobStatus checks a change of the status: whoever manages a job, its status tells one story (KEP-4368).
func ValidateJobStatus(new, old *batchv1.Job) field.ErrorList {
	path, s := field.NewPath("status"), &new.Status
	errs := validateStatusNumbers(s, path)
	errs = append(errs, validateUncounted(s.UncountedTerminatedPods, path.Child("uncountedTerminatedPods"))...)
	errs = append(errs, validateOutcome(s, path)...)
	errs = append(errs, validateFinished(s, path)...)
	errs = append(errs, validateStatusIndexes(new, path)...)
	if s.Ready != nil && *s.Ready > s.Active {
		errs = append(errs, field.Invalid(path.Child("ready"), *s.Ready, "cannot set more ready pods than active"))
	}
	errs = append(errs, exclusive(s, path.Child("conditions"), batchv1.JobSuccessCriteriaMet, batchv1.JobFailed)...)
	errs = append(errs, exclusive(s, path.Child("conditions"), batchv1.JobSuccessCriteriaMet, batchv1.JobFailureTarget)...)
	return append(errs, validateHistory(new, old, path)...)
}

func has(s *batchv1.JobStatus, t batchv1.JobConditionType) bool {
	return slices.ContainsFunc(s.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type == t && c.Status == corev1.ConditionTrue
	})
}

func validateStatusNumbers(s *batchv1.JobStatus, path *field.Path) field.ErrorList {
	errs := checks.Counts(path, checks.Count{Name: "active", Value: s.Active}, checks.Count{Name: "succeeded", Value: s.Succeeded},
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
	return field.ErrorList{field.Invalid(at, field.OmitValueType{}, fmt.Sprintf("cannot set %s=True and %s conditions", a, second))}
}

// validateOutcome checks that a job has one outcome, the times that belong to it, and was heading for it.
func validateOutcome(s *batchv1.JobStatus, path *field.Path) field.ErrorList {
	conditions, completion := path.Child("conditions"), path.Child("completionTime")
	complete := has(s, batchv1.JobComplete)
	errs := exclusive(s, conditions, batchv1.JobComplete, batchv1.JobFailed)
	errs = append(errs, exclusive(s, conditions, batchv1.JobComplete, batchv1.JobFailureTarget)...)
	if s.CompletionTime != nil && !complete {
		errs = append(errs, field.Invalid(completion, s.CompletionTime, "cannot set completionTime when there is no Complete=True condition"))
	}
	if s.CompletionTime == nil && complete {
		errs = append(errs, field.Required(completion, "completionTime is required for Complete jobs"))
	}
	if s.CompletionTime != nil && s.StartTime != nil && s.CompletionTime.Before(s.StartTime) {
		errs = append(errs, field.Invalid(completion, s.CompletionTime, "must be equal to or after `startTime`"))
	}
	const without = "cannot set %s=True condition without the %s=true condition"
	if has(s, batchv1.JobFailed) && !has(s, batchv1.JobFailureTarget) {
		errs = append(errs, field.Invalid(conditions, field.OmitValueType{}, fmt.Sprintf(without, batchv1.JobFailed, batchv1.JobFailureTarget)))
	}
	if complete && !has(s, batchv1.JobSuccessCriteriaMet) {
		errs = append(errs, field.Invalid(conditions, field.OmitValueType{}, fmt.Sprintf(without, batchv1.JobComplete, batchv1.JobSuccessCriteriaMet)))
	}
	return errs
}

// validateFinished checks that a job that is over had a start and has nothing left.
func validateFinished(s *batchv1.JobStatus, path *field.Path) field.ErrorList {
	if !has(s, batchv1.JobComplete) && !has(s, batchv1.JobFailed) {
		return nil
	}
	var errs field.ErrorList
	if s.Active > 0 {
		errs = append(errs, field.Invalid(path.Child("active"), s.Active, "active>0 is invalid for finished job"))
	}
	if s.Terminating != nil && *s.Terminating > 0 {
		errs = append(errs, field.Invalid(path.Child("terminating"), *s.Terminating, "terminating>0 is invalid for finished job"))
	}
	if s.StartTime == nil {
		errs = append(errs, field.Required(path.Child("startTime"), "startTime is required for finished job"))
	}
	if u := s.UncountedTerminatedPods; u != nil && len(u.Failed)+len(u.Succeeded) > 0 {
		errs = append(errs, field.Invalid(path.Child("uncountedTerminatedPods"), checks.Unversioned(u), "must be empty for finished job"))
	}
	return errs
}

func validateStatusIndexes(j *batchv1.Job, path *field.Path) field.ErrorList {
	s := &j.Status
	completedAt, failedAt := path.Child("completedIndexes"), path.Child("failedIndexes")
	errs := validateIndexLists(j, completedAt, failedAt)
	if s.CompletedIndexes != "" && !indexed(&j.Spec) {
		errs = append(errs, field.Invalid(completedAt, s.CompletedIndexes, "cannot set non-empty completedIndexes when non-indexed completion mode"))
	}
	if s.FailedIndexes != nil && j.Spec.BackoffLimitPerIndex == nil {
		errs = append(errs, field.Invalid(failedAt, *s.FailedIndexes, "cannot set non-null failedIndexes when backoffLimitPerIndex is null"))
	}
	return errs
}

// validateIndexLists checks the lists as such, as far as the job knows how many indexes there are.
func validateIndexLists(j *batchv1.Job, completedAt, failedAt *field.Path) field.ErrorList {
	s := &j.Status
	if j.Spec.Completions == nil {
		return nil
	}
	var errs field.ErrorList
	completed, err := parseIndexes(s.CompletedIndexes, j.Spec.Completions)
	if err != nil {
		errs = append(errs, field.Invalid(completedAt, s.CompletedIndexes, "error parsing completedIndexes: "+err.Error()))
	}
	if s.FailedIndexes == nil || j.Spec.BackoffLimitPerIndex == nil {
		return errs
	}
	failed, err := parseIndexes(*s.FailedIndexes, j.Spec.Completions)
	if err != nil {
		return append(errs, field.Invalid(failedAt, *s.FailedIndexes, "error parsing failedIndexes: "+err.Error()))
	}
	if i, both := overlap(completed, failed); both {
		errs = append(errs, field.Invalid(failedAt, *s.FailedIndexes, fmt.Sprintf("failedIndexes and completedIndexes overlap at index: %d", i)))
	}
	return errs
}

// validateHistory checks that nothing is taken back.
func validateHistory(new, old *batchv1.Job, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	s, was := &new.Status, &old.Status
	undone := func(text string, types ...batchv1.JobConditionType) {
		for _, t := range types {
			if has(was, t) && !has(s, t) {
				errs = append(errs, field.Invalid(path.Child("conditions"), field.OmitValueType{}, fmt.Sprintf("cannot disable the %s%s=True condition", text, t)))
			}
		}
	}
	undone("terminal ", batchv1.JobComplete, batchv1.JobFailed, batchv1.JobFailureTarget)
	undone("", batchv1.JobSuccessCriteriaMet)
	if s.Failed < was.Failed {
		errs = append(errs, field.Invalid(path.Child("failed"), s.Failed, "cannot decrease the failed counter"))
	}
	elastic := indexed(&new.Spec) && ptr.Equal(new.Spec.Completions, new.Spec.Parallelism) // which can be scaled down
	if s.Succeeded < was.Succeeded && !elastic {
		errs = append(errs, field.Invalid(path.Child("succeeded"), s.Succeeded, "cannot decrease the succeeded counter"))
	}
	suspended := new.Spec.Suspend != nil && *new.Spec.Suspend
	if was.StartTime != nil && !suspended && !apiequality.Semantic.DeepEqual(s.StartTime, was.StartTime) {
		errs = append(errs, field.Invalid(path.Child("startTime"), s.StartTime, "field is immutable for unsuspended job once set"))
	}
	if was.CompletionTime != nil && s.CompletionTime != nil && !s.CompletionTime.Equal(was.CompletionTime) {
		errs = append(errs, immutable(path.Child("completionTime"), s.CompletionTime))
	}
	return errs
}
