package batch

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
	"quintet.dev/quintet/components/apiserver/kinds/podspec"
)

// Bounds of indexed jobs.
const (
	maxIndexed     = 100_000
	maxPolicyRules = 20
	maxManagedBy   = 63
)

// ValidateJob checks a job.
func ValidateJob(j *batchv1.Job) field.ErrorList {
	path := field.NewPath("spec")
	errs := validateJobSpec(&j.Spec, path)
	if j.Spec.CompletionMode != nil && *j.Spec.CompletionMode == batchv1.IndexedCompletion && j.Spec.Completions != nil && *j.Spec.Completions > 0 {
		host := fmt.Sprintf("%s-%d", j.Name, *j.Spec.Completions-1)
		if msgs := utilvalidation.IsDNS1123Label(host); len(msgs) > 0 {
			errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), j.Name,
				fmt.Sprintf("will not able to create pod with invalid DNS label: %s", host)))
		}
	}
	if j.Spec.Selector == nil {
		return append(errs, field.Required(path.Child("selector"), ""))
	}
	errs = append(errs, metavalidation.ValidateLabelSelector(j.Spec.Selector, metavalidation.LabelSelectorValidationOptions{}, path.Child("selector"))...)
	if s, err := metav1.LabelSelectorAsSelector(j.Spec.Selector); err == nil && !s.Matches(labels.Set(j.Spec.Template.Labels)) {
		errs = append(errs, field.Invalid(path.Child("template", "metadata", "labels"), j.Spec.Template.Labels,
			"`selector` does not match template `labels`"))
	}
	return errs
}

func validateJobSpec(s *batchv1.JobSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, f := range []struct {
		name  string
		value *int32
	}{
		{"parallelism", s.Parallelism}, {"completions", s.Completions}, {"backoffLimit", s.BackoffLimit},
		{"ttlSecondsAfterFinished", s.TTLSecondsAfterFinished}, {"backoffLimitPerIndex", s.BackoffLimitPerIndex},
		{"maxFailedIndexes", s.MaxFailedIndexes},
	} {
		if f.value != nil {
			errs = append(errs, checks.NonNegative(int64(*f.value), path.Child(f.name))...)
		}
	}
	if s.ActiveDeadlineSeconds != nil {
		errs = append(errs, checks.NonNegative(*s.ActiveDeadlineSeconds, path.Child("activeDeadlineSeconds"))...)
	}
	errs = append(errs, validateIndexed(s, path)...)
	errs = append(errs, podspec.ValidateTemplate(&s.Template, path.Child("template"))...)
	policy := s.Template.Spec.RestartPolicy
	if policy == corev1.RestartPolicyAlways {
		errs = append(errs, field.Required(path.Child("template", "spec", "restartPolicy"), `valid values: "OnFailure", "Never"`))
	} else if policy != corev1.RestartPolicyOnFailure && policy != corev1.RestartPolicyNever {
		errs = append(errs, field.NotSupported(path.Child("template", "spec", "restartPolicy"), policy,
			[]corev1.RestartPolicy{corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever}))
	}
	if s.PodFailurePolicy != nil {
		errs = append(errs, validateFailurePolicy(s, path)...)
	}
	if m := s.ManagedBy; m != nil {
		errs = append(errs, utilvalidation.IsDomainPrefixedPath(path.Child("managedBy"), *m)...)
		if len(*m) > maxManagedBy {
			errs = append(errs, field.TooLongMaxLength(path.Child("managedBy"), *m, maxManagedBy))
		}
	}
	if p := s.PodReplacementPolicy; p != nil {
		at := path.Child("podReplacementPolicy")
		errs = append(errs, checks.OneOf(*p, at, batchv1.Failed, batchv1.TerminatingOrFailed)...)
		if s.PodFailurePolicy != nil && *p == batchv1.TerminatingOrFailed {
			errs = append(errs, field.NotSupported(at, *p, []batchv1.PodReplacementPolicy{batchv1.Failed}))
		}
	}
	return errs
}

func validateIndexed(s *batchv1.JobSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.CompletionMode == nil {
		return nil
	}
	errs = append(errs, checks.OneOf(*s.CompletionMode, path.Child("completionMode"), batchv1.IndexedCompletion, batchv1.NonIndexedCompletion)...)
	if *s.CompletionMode != batchv1.IndexedCompletion {
		if s.BackoffLimitPerIndex != nil {
			errs = append(errs, field.Invalid(path.Child("backoffLimitPerIndex"), *s.BackoffLimitPerIndex, "requires indexed completion mode"))
		}
		if s.SuccessPolicy != nil {
			errs = append(errs, field.Invalid(path.Child("successPolicy"), *s.SuccessPolicy, "requires indexed completion mode"))
		}
		return errs
	}
	if s.Completions == nil {
		errs = append(errs, field.Required(path.Child("completions"), fmt.Sprintf("when completion mode is %s", batchv1.IndexedCompletion)))
	}
	if s.Parallelism != nil && *s.Parallelism > maxIndexed {
		errs = append(errs, field.Invalid(path.Child("parallelism"), *s.Parallelism,
			fmt.Sprintf("must be less than or equal to %d when completion mode is %s", maxIndexed, batchv1.IndexedCompletion)))
	}
	if s.MaxFailedIndexes != nil && s.Completions != nil && *s.MaxFailedIndexes > *s.Completions {
		errs = append(errs, field.Invalid(path.Child("maxFailedIndexes"), *s.MaxFailedIndexes, "must be less than or equal to completions"))
	}
	if s.MaxFailedIndexes != nil && s.BackoffLimitPerIndex == nil {
		errs = append(errs, field.Required(path.Child("backoffLimitPerIndex"), "when maxFailedIndexes is specified"))
	}
	if s.SuccessPolicy != nil {
		rules := path.Child("successPolicy", "rules")
		if n := len(s.SuccessPolicy.Rules); n == 0 {
			errs = append(errs, field.Required(rules, "at least one rules must be specified when the successPolicy is specified"))
		} else if n > maxPolicyRules {
			errs = append(errs, field.TooMany(rules, n, maxPolicyRules))
		}
		for i, r := range s.SuccessPolicy.Rules {
			if r.SucceededCount == nil && r.SucceededIndexes == nil {
				errs = append(errs, field.Required(rules.Index(i), "at least one of succeededCount or succeededIndexes must be specified"))
			}
			if r.SucceededCount != nil {
				errs = append(errs, checks.NonNegative(int64(*r.SucceededCount), rules.Index(i).Child("succeededCount"))...)
			}
		}
	}
	return errs
}

func validateFailurePolicy(s *batchv1.JobSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.Template.Spec.RestartPolicy != corev1.RestartPolicyNever {
		errs = append(errs, field.Invalid(path.Child("template", "spec", "restartPolicy"), s.Template.Spec.RestartPolicy,
			fmt.Sprintf("only %q is supported when podFailurePolicy is specified", corev1.RestartPolicyNever)))
	}
	rules := path.Child("podFailurePolicy", "rules")
	if n := len(s.PodFailurePolicy.Rules); n > maxPolicyRules {
		errs = append(errs, field.TooMany(rules, n, maxPolicyRules))
	}
	for i := range s.PodFailurePolicy.Rules {
		r, at := &s.PodFailurePolicy.Rules[i], rules.Index(i)
		errs = append(errs, checks.OneOf(r.Action, at.Child("action"), batchv1.PodFailurePolicyActionCount, batchv1.PodFailurePolicyActionFailIndex,
			batchv1.PodFailurePolicyActionFailJob, batchv1.PodFailurePolicyActionIgnore)...)
		if r.Action == batchv1.PodFailurePolicyActionFailIndex && s.BackoffLimitPerIndex == nil {
			errs = append(errs, field.Invalid(at.Child("action"), r.Action, "requires the backoffLimitPerIndex to be set"))
		}
		switch {
		case r.OnExitCodes != nil && len(r.OnPodConditions) > 0:
			errs = append(errs, field.Invalid(at, field.OmitValueType{}, "specifying both OnExitCodes and OnPodConditions is not supported"))
		case r.OnExitCodes == nil && len(r.OnPodConditions) == 0:
			errs = append(errs, field.Invalid(at, field.OmitValueType{}, "specifying one of OnExitCodes and OnPodConditions is required"))
		case r.OnExitCodes != nil:
			codes := at.Child("onExitCodes")
			errs = append(errs, checks.OneOf(r.OnExitCodes.Operator, codes.Child("operator"),
				batchv1.PodFailurePolicyOnExitCodesOpIn, batchv1.PodFailurePolicyOnExitCodesOpNotIn)...)
			if len(r.OnExitCodes.Values) == 0 {
				errs = append(errs, field.Invalid(codes.Child("values"), r.OnExitCodes.Values, "at least one value is required"))
			}
		}
	}
	return errs
}

// ValidateJobUpdate checks a change: what the job is stays; how much of it runs at once may change.
func ValidateJobUpdate(new, old *batchv1.Job) field.ErrorList {
	errs := ValidateJob(new)
	path := field.NewPath("spec")
	keep := func(name string, is, was any) {
		errs = append(errs, validation.ValidateImmutableField(is, was, path.Child(name))...)
	}
	elastic := new.Spec.CompletionMode != nil && *new.Spec.CompletionMode == batchv1.IndexedCompletion &&
		new.Spec.Completions != nil && new.Spec.Parallelism != nil && *new.Spec.Completions == *new.Spec.Parallelism
	if !elastic {
		keep("completions", new.Spec.Completions, old.Spec.Completions)
	}
	keep("selector", new.Spec.Selector, old.Spec.Selector)
	keep("completionMode", new.Spec.CompletionMode, old.Spec.CompletionMode)
	keep("podFailurePolicy", new.Spec.PodFailurePolicy, old.Spec.PodFailurePolicy)
	keep("backoffLimitPerIndex", new.Spec.BackoffLimitPerIndex, old.Spec.BackoffLimitPerIndex)
	keep("managedBy", new.Spec.ManagedBy, old.Spec.ManagedBy)
	keep("successPolicy", new.Spec.SuccessPolicy, old.Spec.SuccessPolicy)
	template := old.Spec.Template.DeepCopy()
	if suspended := old.Spec.Suspend != nil && *old.Spec.Suspend; suspended && old.Status.StartTime == nil {
		// Nothing runs yet, so a queue may still decide where it will (KEP-2926).
		from, to := &new.Spec.Template, template
		to.Spec.NodeSelector, to.Spec.Affinity, to.Spec.Tolerations = from.Spec.NodeSelector, from.Spec.Affinity, from.Spec.Tolerations
		to.Spec.SchedulingGates, to.Labels, to.Annotations = from.Spec.SchedulingGates, from.Labels, from.Annotations
	}
	if !apiequality.Semantic.DeepEqual(new.Spec.Template, *template) {
		errs = append(errs, field.Invalid(path.Child("template"), new.Spec.Template, "field is immutable"))
	}
	return errs
}

// ValidateJobStatus checks a change of the status.
func ValidateJobStatus(new, _ *batchv1.Job) field.ErrorList {
	path, s := field.NewPath("status"), &new.Status
	errs := checks.Counts(path, checks.Count{Name: "active", Value: s.Active}, checks.Count{Name: "succeeded", Value: s.Succeeded},
		checks.Count{Name: "failed", Value: s.Failed})
	for _, f := range []struct {
		name  string
		value *int32
	}{{"ready", s.Ready}, {"terminating", s.Terminating}} {
		if f.value != nil {
			errs = append(errs, checks.NonNegative(int64(*f.value), path.Child(f.name))...)
		}
	}
	return errs
}
