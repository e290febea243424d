package batch

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
)

// oneOf checks a value that must be one of a few, of which none at all is just another wrong one.
func oneOf[T ~string](value T, at *field.Path, known ...T) field.ErrorList {
	if slices.Contains(known, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(at, value, known)}
}

// chosen checks a value that must be set and one of a few.
func chosen[T ~string](value T, at *field.Path, known ...T) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(at, fmt.Sprintf("valid values: %q", known))}
	}
	return oneOf(value, at, known...)
}

func validateFailurePolicy(s *batchv1.JobSpec, path *field.Path) field.ErrorList {
	if s.PodFailurePolicy == nil {
		return nil
	}
	var errs field.ErrorList
	rules := path.Child("rules")
	if n := len(s.PodFailurePolicy.Rules); n > maxPolicyRules {
		errs = append(errs, field.TooMany(rules, n, maxPolicyRules))
	}
	names := containerNames(&s.Template.Spec)
	for i := range s.PodFailurePolicy.Rules {
		errs = append(errs, validateFailureRule(&s.PodFailurePolicy.Rules[i], s, names, rules.Index(i))...)
	}
	return errs
}

func validateFailureRule(r *batchv1.PodFailurePolicyRule, s *batchv1.JobSpec, names []string,
	at *field.Path) field.ErrorList {
	errs := chosen(r.Action, at.Child("action"), batchv1.PodFailurePolicyActionCount,
		batchv1.PodFailurePolicyActionFailIndex,
		batchv1.PodFailurePolicyActionFailJob, batchv1.PodFailurePolicyActionIgnore)
	if r.Action == batchv1.PodFailurePolicyActionFailIndex && s.BackoffLimitPerIndex == nil {
		errs = append(errs, field.Invalid(at.Child("action"), r.Action, "requires the backoffLimitPerIndex to be set"))
	}
	if r.OnExitCodes != nil {
		errs = append(errs, validateExitCodes(r.OnExitCodes, names, at.Child("onExitCodes"))...)
	}
	if n := len(r.OnPodConditions); n > maxConditionTypes {
		errs = append(errs, field.TooMany(at.Child("onPodConditions"), n, maxConditionTypes))
	}
	for i, c := range r.OnPodConditions {
		p := at.Child("onPodConditions").Index(i)
		for _, msg := range utilvalidation.IsQualifiedName(string(c.Type)) {
			errs = append(errs, field.Invalid(p.Child("type"), c.Type, msg))
		}
		errs = append(errs, chosen(c.Status, p.Child("status"), corev1.ConditionFalse, corev1.ConditionTrue,
			corev1.ConditionUnknown)...)
	}
	switch both, none := r.OnExitCodes != nil && len(r.OnPodConditions) > 0, r.OnExitCodes == nil &&
		len(r.OnPodConditions) == 0; {
	case both:
		errs = append(errs, field.Invalid(at, field.OmitValueType{},
			"specifying both OnExitCodes and OnPodConditions is not supported"))
	case none:
		errs = append(errs, field.Invalid(at, field.OmitValueType{},
			"specifying one of OnExitCodes and OnPodConditions is required"))
	}
	return errs
}

func validateExitCodes(c *batchv1.PodFailurePolicyOnExitCodesRequirement, names []string,
	at *field.Path) field.ErrorList {
	errs := chosen(c.Operator, at.Child("operator"), batchv1.PodFailurePolicyOnExitCodesOpIn,
		batchv1.PodFailurePolicyOnExitCodesOpNotIn)
	if c.ContainerName != nil && !slices.Contains(names, *c.ContainerName) {
		errs = append(errs, field.Invalid(at.Child("containerName"), *c.ContainerName,
			"must be one of the container or initContainer names in the pod template"))
	}
	values := at.Child("values")
	switch n := len(c.Values); {
	case n == 0:
		errs = append(errs, field.Invalid(values, c.Values, "at least one value is required"))
	case n > maxExitCodes:
		errs = append(errs, field.TooMany(values, n, maxExitCodes))
	}
	seen := map[int32]bool{}
	for i, v := range c.Values {
		if v == 0 && c.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn {
			errs = append(errs, field.Invalid(values.Index(i), v, "must not be 0 for the In operator"))
		}
		if seen[v] {
			errs = append(errs, field.Duplicate(values.Index(i), v))
		}
		seen[v] = true
	}
	if !slices.IsSorted(c.Values) {
		errs = append(errs, field.Invalid(values, c.Values, "must be ordered"))
	}
	return errs
}

func containerNames(s *corev1.PodSpec) []string {
	var out []string
	for _, list := range [][]corev1.Container{s.InitContainers, s.Containers} {
		for i := range list {
			out = append(out, list[i].Name)
		}
	}
	return out
}

func validateSuccessPolicy(s *batchv1.JobSpec, path *field.Path) field.ErrorList {
	p := s.SuccessPolicy
	if p == nil {
		return nil
	}
	if !indexed(s) {
		return field.ErrorList{field.Invalid(path, checks.Unversioned(p), "requires indexed completion mode")}
	}
	var errs field.ErrorList
	rules := path.Child("rules")
	switch n := len(p.Rules); {
	case n == 0:
		errs = append(errs, field.Required(rules,
			"at least one rules must be specified when the successPolicy is specified"))
	case n > maxPolicyRules:
		errs = append(errs, field.TooMany(rules, n, maxPolicyRules))
	}
	for i := range p.Rules {
		errs = append(errs, validateSuccessRule(&p.Rules[i], s, rules.Index(i))...)
	}
	return errs
}

func validateSuccessRule(r *batchv1.SuccessPolicyRule, s *batchv1.JobSpec, at *field.Path) field.ErrorList {
	if r.SucceededCount == nil && r.SucceededIndexes == nil {
		return field.ErrorList{field.Required(at,
			"at least one of succeededCount or succeededIndexes must be specified")}
	}
	var errs field.ErrorList
	total := 0
	if r.SucceededIndexes != nil {
		indexes := at.Child("succeededIndexes")
		if len(*r.SucceededIndexes) > maxSucceededIndexes {
			errs = append(errs, field.TooLong(indexes, "", maxSucceededIndexes))
		}
		list, err := parseIndexes(*r.SucceededIndexes, s.Completions)
		if err != nil {
			errs = append(errs, field.Invalid(indexes, *r.SucceededIndexes,
				"error parsing succeededIndexes: "+err.Error()))
		}
		for _, span := range list {
			total += span.last - span.first + 1
		}
	}
	if c := r.SucceededCount; c != nil {
		count := at.Child("succeededCount")
		errs = append(errs, checks.NonNegative(int64(*c), count)...)
		if s.Completions != nil && *c > *s.Completions {
			errs = append(errs, field.Invalid(count, *c,
				fmt.Sprintf("must be less than or equal to %d (the number of specified completions)", *s.Completions)))
		}
		if r.SucceededIndexes != nil && int(*c) > total {
			errs = append(errs, field.Invalid(count, *c,
				fmt.Sprintf("must be less than or equal to %d (the number of indexes in the specified succeededIndexes field)",
					total)))
		}
	}
	return errs
}
