package admissionregistration

import (
	v1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
)

// ValidateValidatingBinding checks a binding of a validating policy.
func ValidateValidatingBinding(b *v1.ValidatingAdmissionPolicyBinding) field.ErrorList {
	at := field.NewPath("spec")
	errs := validateBinding(b.Spec.PolicyName, b.Spec.ParamRef, b.Spec.MatchResources, at)
	actions := at.Child("validationActions")
	seen := sets.New[v1.ValidationAction]()
	for i, a := range b.Spec.ValidationActions {
		errs = append(errs, checks.In(a, actions.Index(i), v1.Audit, v1.Deny, v1.Warn)...)
		if seen.Has(a) {
			errs = append(errs, field.Duplicate(actions.Index(i), a))
		}
		seen.Insert(a)
	}
	if seen.HasAll(v1.Deny, v1.Warn) {
		errs = append(errs, field.Invalid(actions, b.Spec.ValidationActions,
			"must not contain both Deny and Warn (repeating the same validation failure information in the API response and "+
				"headers serves no purpose)"))
	}
	if len(seen) == 0 {
		errs = append(errs, field.Required(actions, "at least one validation action is required"))
	}
	return errs
}

// ValidateMutatingBinding checks a binding of a mutating policy.
func ValidateMutatingBinding(b *v1.MutatingAdmissionPolicyBinding) field.ErrorList {
	at := field.NewPath("spec")
	errs := validateBinding(b.Spec.PolicyName, b.Spec.ParamRef, b.Spec.MatchResources, at)
	if b.Spec.MatchResources != nil {
		errs = append(errs, onlyMutable(b.Spec.MatchResources, at.Child("matchResources"))...)
	}
	return errs
}

func validateBinding(policy string, param *v1.ParamRef, match *v1.MatchResources, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if policy == "" {
		errs = append(errs, field.Required(at.Child("policyName"), ""))
	} else {
		errs = append(errs, checks.Text(policy, at.Child("policyName"), checks.Subdomain)...)
	}
	if param != nil {
		errs = append(errs, validateParamRef(param, at.Child("paramRef"))...)
	}
	return append(errs, validateMatch(match, at.Child("matchResources"))...)
}

func validateParamRef(r *v1.ParamRef, at *field.Path) field.ErrorList {
	const exclusive = "name and selector are mutually exclusive"
	var errs field.ErrorList
	if r.Name != "" {
		errs = append(errs, checks.Text(r.Name, at.Child("name"), content.IsPathSegmentName)...)
		if r.Selector != nil {
			errs = append(errs, field.Forbidden(at.Child("name"), exclusive))
		}
	}
	if r.Selector != nil {
		errs = append(errs, selector(r.Selector, at.Child("selector"))...)
		if r.Name != "" {
			errs = append(errs, field.Forbidden(at.Child("selector"), exclusive))
		}
	}
	if r.Name == "" && r.Selector == nil {
		errs = append(errs, field.Required(at, "one of name or selector must be specified"))
	}
	if r.ParameterNotFoundAction == nil || *r.ParameterNotFoundAction == "" {
		return append(errs, field.Required(at.Child("parameterNotFoundAction"), ""))
	}
	return append(errs, checks.In(*r.ParameterNotFoundAction, at.Child("parameterNotFoundAction"), v1.DenyAction,
		v1.AllowAction)...)
}
