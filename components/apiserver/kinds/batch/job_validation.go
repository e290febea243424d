package batch

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
	"quintet.dev/quintet/components/apiserver/kinds/podspec"
)

// Bounds of jobs.
const (
	maxIndexed          = 100_000 // pods at once, and failed indexes, of an indexed job
	maxIndexedOfMany    = 10_000  // the same where there are more indexes than that
	maxPolicyRules      = 20
	maxExitCodes        = 255
	maxConditionTypes   = 20
	maxManagedBy        = 63
	maxSucceededIndexes = 64 * 1024 // bytes of a list of them
)

// Rules check, as far as that is for each server to say.
type Rules struct{ Pods podspec.Rules }

// ValidateJob checks a job.
func (r Rules) ValidateJob(j *batchv1.Job) field.ErrorList { return r.validateJob(j, nil) }

// validateJob checks a job; old is what its spec was before, nil if it is new.
func (r Rules) validateJob(j *batchv1.Job, old *batchv1.JobSpec) field.ErrorList {
	errs := generated(j, templateOf(old))
	errs = append(errs, r.validateSelected(&j.Spec, old, field.NewPath("spec"))...)
	if s := &j.Spec; indexed(s) && s.Completions != nil && *s.Completions > 0 {
		host := fmt.Sprintf("%s-%d", j.Name, *s.Completions-1)
		if len(utilvalidation.IsDNS1123Label(host)) > 0 {
			errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), j.Name,
				"will not able to create pod with invalid DNS label: "+host))
		}
	}
	return errs
}

func templateOf(s *batchv1.JobSpec) *corev1.PodTemplateSpec {
	if s == nil {
		return nil
	}
	return &s.Template
}

// generated checks that a job whose selector is made for it has such a selector, and its template the labels that are
// made with it. Jobs older than the labels with a prefix go without those.
func generated(j *batchv1.Job, old *corev1.PodTemplateSpec) field.ErrorList {
	if j.Spec.ManualSelector != nil && *j.Spec.ManualSelector || j.Spec.Selector == nil {
		return nil
	}
	keys := []string{oldControllerUID, oldJobName}
	if old == nil || hasLabels(old, batchv1.ControllerUidLabel, batchv1.JobNameLabel) {
		keys = append(keys, batchv1.ControllerUidLabel, batchv1.JobNameLabel)
	}
	var errs field.ErrorList
	have, want := j.Spec.Template.Labels, labelsOf(j)
	made := labels.Set{}
	for _, key := range keys {
		made[key] = want[key]
		at := field.NewPath("spec", "template", "metadata", "labels").Key(key)
		if value, ok := have[key]; !ok {
			errs = append(errs, field.Required(at, fmt.Sprintf("must be '%s'", want[key])))
		} else if value != want[key] {
			errs = append(errs, field.Invalid(at, have, fmt.Sprintf("must be '%s'", want[key])))
		}
	}
	selector, err := metav1.LabelSelectorAsSelector(j.Spec.Selector)
	if err == nil && !selector.Matches(made) { // what can't be read is told by the check of the selector itself
		errs = append(errs, field.Invalid(field.NewPath("spec", "selector"), j.Spec.Selector,
			"`selector` not auto-generated"))
	}
	return errs
}

// labelsOf are the labels that the pods of a job get with its selector.
func labelsOf(j *batchv1.Job) map[string]string {
	return map[string]string{
		oldControllerUID: string(j.UID), oldJobName: j.Name,
		batchv1.ControllerUidLabel: string(j.UID), batchv1.JobNameLabel: j.Name,
	}
}

func hasLabels(t *corev1.PodTemplateSpec, keys ...string) bool {
	return !slices.ContainsFunc(keys, func(key string) bool { _, ok := t.Labels[key]; return !ok })
}

// validateSelected checks the spec of a job, with a selector that finds its pods. One with values that no label has may
// stay. Where it has such, or the affinity of the template, both may.
func (r Rules) validateSelected(s, old *batchv1.JobSpec, path *field.Path) field.ErrorList {
	kept := old != nil && (metavalidation.LabelSelectorHasInvalidLabelValue(old.Selector) ||
		podspec.HadBadSelectors(&old.Template))
	r.Pods.KeptSelectors = kept
	errs := r.validateJobSpec(s, templateOf(old), path)
	options := metavalidation.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: kept}
	if s.Selector == nil {
		errs = append(errs, field.Required(path.Child("selector"), ""))
	} else {
		errs = append(errs, metavalidation.ValidateLabelSelector(s.Selector, options, path.Child("selector"))...)
	}
	if selector, err := metav1.LabelSelectorAsSelector(s.Selector); err == nil &&
		!selector.Matches(labels.Set(s.Template.Labels)) {
		errs = append(errs, field.Invalid(path.Child("template", "metadata", "labels"), s.Template.Labels,
			"`selector` does not match template `labels`"))
	}
	return errs
}

func indexed(s *batchv1.JobSpec) bool {
	return s.CompletionMode != nil && *s.CompletionMode == batchv1.IndexedCompletion
}

// validateJobSpec checks what jobs and the templates of jobs share.
func (r Rules) validateJobSpec(s *batchv1.JobSpec, old *corev1.PodTemplateSpec, path *field.Path) field.ErrorList {
	errs := validateNumbers(s, path)
	if m := s.ManagedBy; m != nil {
		errs = append(errs, utilvalidation.IsDomainPrefixedPath(path.Child("managedBy"), *m)...)
		if len(*m) > maxManagedBy {
			errs = append(errs, field.TooLongMaxLength(path.Child("managedBy"), *m, maxManagedBy))
		}
	}
	errs = append(errs, validateIndexed(s, path)...)
	errs = append(errs, validateFailurePolicy(s, path.Child("podFailurePolicy"))...)
	errs = append(errs, validateSuccessPolicy(s, path.Child("successPolicy"))...)
	errs = append(errs, validateReplacement(s, path.Child("podReplacementPolicy"))...)
	template := path.Child("template")
	errs = append(errs, r.Pods.ValidateTemplate(&s.Template, old, template)...)
	at := template.Child("spec", "restartPolicy")
	switch policy := s.Template.Spec.RestartPolicy; {
	case policy == "" || policy == corev1.RestartPolicyAlways:
		errs = append(errs, field.Required(at, `valid values: "OnFailure", "Never"`))
	case policy != corev1.RestartPolicyOnFailure && policy != corev1.RestartPolicyNever:
		errs = append(errs, field.NotSupported(at, policy,
			[]corev1.RestartPolicy{corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever}))
	case s.PodFailurePolicy != nil && policy != corev1.RestartPolicyNever:
		errs = append(errs, field.Invalid(at, policy,
			fmt.Sprintf("only %q is supported when podFailurePolicy is specified", corev1.RestartPolicyNever)))
	}
	return errs
}

func validateNumbers(s *batchv1.JobSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	count := func(name string, value *int32) {
		if value != nil {
			errs = append(errs, checks.NonNegative(int64(*value), path.Child(name))...)
		}
	}
	count("parallelism", s.Parallelism)
	count("completions", s.Completions)
	if s.ActiveDeadlineSeconds != nil {
		errs = append(errs, checks.NonNegative(*s.ActiveDeadlineSeconds, path.Child("activeDeadlineSeconds"))...)
	}
	count("backoffLimit", s.BackoffLimit)
	count("ttlSecondsAfterFinished", s.TTLSecondsAfterFinished)
	count("backoffLimitPerIndex", s.BackoffLimitPerIndex)
	if s.MaxFailedIndexes != nil {
		count("maxFailedIndexes", s.MaxFailedIndexes)
		if s.BackoffLimitPerIndex == nil {
			errs = append(errs, field.Required(path.Child("backoffLimitPerIndex"),
				"when maxFailedIndexes is specified"))
		}
	}
	return errs
}

func validateIndexed(s *batchv1.JobSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.CompletionMode == nil || *s.CompletionMode == batchv1.NonIndexedCompletion {
		const needed = "requires indexed completion mode"
		if s.BackoffLimitPerIndex != nil {
			errs = append(errs, field.Invalid(path.Child("backoffLimitPerIndex"), *s.BackoffLimitPerIndex, needed))
		}
		if s.MaxFailedIndexes != nil {
			errs = append(errs, field.Invalid(path.Child("maxFailedIndexes"), *s.MaxFailedIndexes, needed))
		}
		return errs
	}
	if !indexed(s) {
		return field.ErrorList{field.NotSupported(path.Child("completionMode"), *s.CompletionMode,
			[]batchv1.CompletionMode{batchv1.NonIndexedCompletion, batchv1.IndexedCompletion})}
	}
	if s.Completions == nil {
		errs = append(errs, field.Required(path.Child("completions"),
			fmt.Sprintf("when completion mode is %s", batchv1.IndexedCompletion)))
	}
	if s.Parallelism != nil && *s.Parallelism > maxIndexed {
		errs = append(errs, field.Invalid(path.Child("parallelism"), *s.Parallelism,
			fmt.Sprintf("must be less than or equal to %d when completion mode is %s", maxIndexed,
				batchv1.IndexedCompletion)))
	}
	return append(errs, validateFailedIndexes(s, path)...)
}

// validateFailedIndexes bounds what has to be remembered of indexes that failed.
func validateFailedIndexes(s *batchv1.JobSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	failed := path.Child("maxFailedIndexes")
	if m := s.MaxFailedIndexes; m != nil {
		if s.Completions != nil && *m > *s.Completions {
			errs = append(errs, field.Invalid(failed, *m, "must be less than or equal to completions"))
		}
		if *m > maxIndexed {
			errs = append(errs, field.Invalid(failed, *m, fmt.Sprintf("must be less than or equal to %d", maxIndexed)))
		}
	}
	if s.Completions == nil || *s.Completions <= maxIndexed || s.BackoffLimitPerIndex == nil {
		return errs
	}
	many := fmt.Sprintf("must be less than or equal to %d when completions are above %d and used with backoff limit per "+
		"index", maxIndexedOfMany, maxIndexed)
	if s.MaxFailedIndexes == nil {
		errs = append(errs, field.Required(failed,
			fmt.Sprintf("must be specified when completions is above %d", maxIndexed)))
	}
	if s.Parallelism != nil && *s.Parallelism > maxIndexedOfMany {
		errs = append(errs, field.Invalid(path.Child("parallelism"), *s.Parallelism, many))
	}
	if m := s.MaxFailedIndexes; m != nil && *m > maxIndexedOfMany {
		errs = append(errs, field.Invalid(failed, *m, many))
	}
	return errs
}

func validateReplacement(s *batchv1.JobSpec, at *field.Path) field.ErrorList {
	if s.PodReplacementPolicy == nil {
		return nil
	}
	known := []batchv1.PodReplacementPolicy{batchv1.Failed}
	if s.PodFailurePolicy == nil {
		known = append(known, batchv1.TerminatingOrFailed)
	}
	return oneOf(*s.PodReplacementPolicy, at, known...)
}
