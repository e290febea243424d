package batch

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
	"quintet.dev/quintet/components/apiserver/kinds/podspec"
)

// ValidateJobUpdate checks a changed job.
func (r Rules) ValidateJobUpdate(new, old *batchv1.Job) field.ErrorList {
	return r.validateJob(new, &old.Spec)
}

// ValidateJobChange checks a change: what the job is stays; how much of it runs at once may change. It repeats some of
// ValidateJobUpdate, as upstream does.
func (r Rules) ValidateJobChange(new, old *batchv1.Job) field.ErrorList {
	path, is, was := field.NewPath("spec"), &new.Spec, &old.Spec
	errs := r.validateSelected(is, was, path)
	errs = append(errs, keptCompletions(is, was, path.Child("completions"))...)
	errs = append(errs, validation.ValidateImmutableField(is.Selector, was.Selector, path.Child("selector"))...)
	errs = append(errs, keptTemplate(new, old, path.Child("template"))...)
	errs = append(errs, validation.ValidateImmutableField(is.CompletionMode, was.CompletionMode,
		path.Child("completionMode"))...)
	if !apiequality.Semantic.DeepEqual(is.PodFailurePolicy, was.PodFailurePolicy) {
		errs = append(errs, immutable(path.Child("podFailurePolicy"), checks.Unversioned(is.PodFailurePolicy)))
	}
	errs = append(errs, validation.ValidateImmutableField(is.BackoffLimitPerIndex, was.BackoffLimitPerIndex,
		path.Child("backoffLimitPerIndex"))...)
	errs = append(errs, validation.ValidateImmutableField(is.ManagedBy, was.ManagedBy, path.Child("managedBy"))...)
	if !apiequality.Semantic.DeepEqual(is.SuccessPolicy, was.SuccessPolicy) {
		errs = append(errs, immutable(path.Child("successPolicy"), checks.Unversioned(is.SuccessPolicy)))
	}
	return errs
}

func immutable(at *field.Path, value any) *field.Error {
	return field.Invalid(at, value, validation.FieldImmutableErrorMsg)
}

// keptCompletions checks that an indexed job grows or shrinks only as a whole (KEP-3715), and others don't.
func keptCompletions(is, was *batchv1.JobSpec, at *field.Path) field.ErrorList {
	if !indexed(is) {
		return validation.ValidateImmutableField(is.Completions, was.Completions, at)
	}
	if is.Completions == nil || ptr.Equal(is.Completions, was.Completions) { // that they are missing is told elsewhere
		return nil
	}
	if !ptr.Equal(is.Completions, is.Parallelism) {
		return field.ErrorList{field.Invalid(at, *is.Completions,
			"can only be modified in tandem with spec.parallelism")}
	}
	return nil
}

// keptTemplate checks that the template stays. While a job is suspended and nothing of it runs, a queue may still
// decide where it will run, and with what resources (KEP-2926, KEP-5440).
func keptTemplate(new, old *batchv1.Job, at *field.Path) field.ErrorList {
	is, was := &new.Spec.Template, &old.Spec.Template
	if !idle(old) {
		if !apiequality.Semantic.DeepEqual(is, was) {
			return field.ErrorList{immutable(at, podspec.UnversionedTemplate(is))}
		}
		return nil
	}
	munged := was.Spec.DeepCopy()
	munged.NodeSelector, munged.Tolerations = is.Spec.NodeSelector, is.Spec.Tolerations
	munged.Affinity = withNodeAffinity(was.Spec.Affinity, is.Spec.Affinity)
	munged.SchedulingGates = is.Spec.SchedulingGates
	takeResources(munged.Containers, is.Spec.Containers)
	takeResources(munged.InitContainers, is.Spec.InitContainers)
	if !apiequality.Semantic.DeepEqual(&is.Spec, munged) {
		return field.ErrorList{immutable(at.Child("spec"), podspec.UnversionedSpec(&is.Spec))}
	}
	return nil
}

// withNodeAffinity is an affinity with what another says of nodes; none and one of nothing are the same.
func withNodeAffinity(old, new *corev1.Affinity) *corev1.Affinity {
	out := &corev1.Affinity{}
	if old != nil {
		*out = *old
	}
	out.NodeAffinity = nil
	if new == nil && *out == (corev1.Affinity{}) {
		return nil
	}
	if new != nil {
		out.NodeAffinity = new.NodeAffinity
	}
	return out
}

func idle(j *batchv1.Job) bool {
	suspended := j.Spec.Suspend != nil && *j.Spec.Suspend
	return suspended && j.Status.Active == 0 && (j.Status.StartTime == nil || has(&j.Status, batchv1.JobSuspended))
}

func takeResources(to, from []corev1.Container) {
	if len(to) != len(from) {
		return
	}
	for i := range to {
		to[i].Resources = from[i].Resources
	}
}
