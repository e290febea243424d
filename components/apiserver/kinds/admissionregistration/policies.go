package admissionregistration

import (
	"strings"

	v1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
	"quintet.dev/quintet/components/apiserver/kinds/show"
)

// ValidateValidatingPolicy checks a validating policy.
func ValidateValidatingPolicy(p *v1.ValidatingAdmissionPolicy) field.ErrorList {
	at, s := field.NewPath("spec"), &p.Spec
	errs := validatePolicy(s.FailurePolicy, s.ParamKind, s.MatchConstraints, s.MatchConditions, s.Variables, at)
	if len(s.Validations) == 0 && len(s.AuditAnnotations) == 0 {
		const either = "validations or auditAnnotations must be non-empty"
		errs = append(errs, field.Required(at.Child("validations"), either), field.Required(at.Child("auditAnnotations"), either))
	}
	for i, v := range s.Validations {
		if strings.TrimSpace(v.Expression) == "" {
			errs = append(errs, field.Required(at.Child("validations").Index(i).Child("expression"), "expression is not specified"))
		}
	}
	keys := sets.New[string]()
	for i, a := range s.AuditAnnotations {
		q := at.Child("auditAnnotations").Index(i)
		if a.Key == "" {
			errs = append(errs, field.Required(q.Child("key"), ""))
		} else if keys.Has(a.Key) {
			errs = append(errs, field.Duplicate(q.Child("key"), a.Key))
		}
		keys.Insert(a.Key)
		errs = append(errs, requiredText(strings.TrimSpace(a.ValueExpression), q.Child("valueExpression"), "valueExpression is not specified")...)
	}
	return errs
}

// ValidateMutatingPolicy checks a mutating policy.
func ValidateMutatingPolicy(p *v1.MutatingAdmissionPolicy) field.ErrorList {
	at, s := field.NewPath("spec"), &p.Spec
	errs := validatePolicy(s.FailurePolicy, s.ParamKind, s.MatchConstraints, s.MatchConditions, s.Variables, at)
	errs = append(errs, checks.OneOf(s.ReinvocationPolicy, at.Child("reinvocationPolicy"), v1.IfNeededReinvocationPolicy, v1.NeverReinvocationPolicy)...)
	if len(s.Mutations) == 0 {
		errs = append(errs, field.Required(at.Child("mutations"), "mutations must contain at least one item"))
	}
	for i, m := range s.Mutations {
		q := at.Child("mutations").Index(i)
		switch m.PatchType {
		case v1.PatchTypeApplyConfiguration:
			if m.ApplyConfiguration == nil {
				errs = append(errs, field.Required(q.Child("applyConfiguration"), "must be specified when patchType is ApplyConfiguration"))
			}
		case v1.PatchTypeJSONPatch:
			if m.JSONPatch == nil {
				errs = append(errs, field.Required(q.Child("jsonPatch"), "must be specified when patchType is JSONPatch"))
			}
		default:
			errs = append(errs, checks.OneOf(m.PatchType, q.Child("patchType"), v1.PatchTypeApplyConfiguration, v1.PatchTypeJSONPatch)...)
		}
	}
	return errs
}

func validatePolicy(fail *v1.FailurePolicyType, param *v1.ParamKind, match *v1.MatchResources, conditions []v1.MatchCondition,
	variables []v1.Variable, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if fail != nil {
		errs = append(errs, checks.OneOf(*fail, at.Child("failurePolicy"), v1.Fail, v1.Ignore)...)
	}
	if param != nil {
		errs = append(errs, checks.Required(param.APIVersion, at.Child("paramKind", "apiVersion"))...)
		errs = append(errs, checks.Required(param.Kind, at.Child("paramKind", "kind"))...)
	}
	if match == nil {
		errs = append(errs, field.Required(at.Child("matchConstraints"), ""))
	} else {
		errs = append(errs, validateMatch(match, at.Child("matchConstraints"))...)
		if len(match.ResourceRules) == 0 {
			errs = append(errs, field.Required(at.Child("matchConstraints", "resourceRules"), ""))
		}
	}
	errs = append(errs, validateConditions(conditions, at.Child("matchConditions"))...)
	names := sets.New[string]()
	for i, v := range variables {
		q := at.Child("variables").Index(i)
		if v.Name == "" {
			errs = append(errs, field.Required(q.Child("name"), "name is not specified"))
		} else if names.Has(v.Name) {
			errs = append(errs, field.Duplicate(q.Child("name"), v.Name))
		}
		names.Insert(v.Name)
		errs = append(errs, requiredText(strings.TrimSpace(v.Expression), q.Child("expression"), "expression is not specified")...)
	}
	return errs
}

func validateMatch(m *v1.MatchResources, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if m.MatchPolicy == nil {
		errs = append(errs, field.Required(at.Child("matchPolicy"), ""))
	} else {
		errs = append(errs, checks.OneOf(*m.MatchPolicy, at.Child("matchPolicy"), v1.Equivalent, v1.Exact)...)
	}
	errs = append(errs, selector(m.NamespaceSelector, at.Child("namespaceSelector"))...)
	errs = append(errs, selector(m.ObjectSelector, at.Child("objectSelector"))...)
	for name, list := range map[string][]v1.NamedRuleWithOperations{"resourceRules": m.ResourceRules, "excludeResourceRules": m.ExcludeResourceRules} {
		for i := range list {
			errs = append(errs, validateRule(&list[i].RuleWithOperations, at.Child(name).Index(i))...)
		}
	}
	return errs
}

// ValidateValidatingBinding checks a binding of a validating policy.
func ValidateValidatingBinding(b *v1.ValidatingAdmissionPolicyBinding) field.ErrorList {
	at := field.NewPath("spec")
	errs := validateBinding(b.Spec.PolicyName, b.Spec.ParamRef, b.Spec.MatchResources, at)
	actions := at.Child("validationActions")
	if len(b.Spec.ValidationActions) == 0 {
		errs = append(errs, field.Required(actions, "at least one validation action is required"))
	}
	seen := sets.New[v1.ValidationAction]()
	for i, a := range b.Spec.ValidationActions {
		errs = append(errs, checks.OneOf(a, actions.Index(i), v1.Audit, v1.Deny, v1.Warn)...)
		if seen.Has(a) {
			errs = append(errs, field.Duplicate(actions.Index(i), a))
		}
		seen.Insert(a)
	}
	if seen.HasAll(v1.Deny, v1.Warn) {
		errs = append(errs, field.Invalid(actions, b.Spec.ValidationActions, "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)"))
	}
	return errs
}

// ValidateMutatingBinding checks a binding of a mutating policy.
func ValidateMutatingBinding(b *v1.MutatingAdmissionPolicyBinding) field.ErrorList {
	return validateBinding(b.Spec.PolicyName, b.Spec.ParamRef, b.Spec.MatchResources, field.NewPath("spec"))
}

func validateBinding(policy string, param *v1.ParamRef, match *v1.MatchResources, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if policy == "" {
		errs = append(errs, field.Required(at.Child("policyName"), ""))
	} else {
		errs = append(errs, checks.Text(policy, at.Child("policyName"), checks.Subdomain)...)
	}
	if param != nil {
		q := at.Child("paramRef")
		switch {
		case param.Name != "" && param.Selector != nil:
			errs = append(errs, field.Forbidden(q.Child("name"), "name and selector are mutually exclusive"))
		case param.Name == "" && param.Selector == nil:
			errs = append(errs, field.Required(q, "one of name or selector must be specified"))
		}
		if param.ParameterNotFoundAction == nil {
			errs = append(errs, field.Required(q.Child("parameterNotFoundAction"), ""))
		} else {
			errs = append(errs, checks.OneOf(*param.ParameterNotFoundAction, q.Child("parameterNotFoundAction"), v1.AllowAction, v1.DenyAction)...)
		}
	}
	if match != nil {
		errs = append(errs, validateMatch(match, at.Child("matchResouces"))...)
	}
	return errs
}

// WebhookColumns are the columns of configurations of webhooks.
func WebhookColumns() show.Columns {
	return show.Name().
		Of("integer", "Webhooks", "Webhooks indicates the number of webhooks registered in this configuration").
		Age()
}

// PolicyColumns are the columns of policies; what counts their rules, and is told in words.
func PolicyColumns(what, words string) show.Columns {
	return show.Name().
		Of("integer", what, words+" defined in this configuration").
		String("ParamKind", "ParamKind specifies the kind of resources used to parameterize this policy").
		Age()
}

// PolicyRow are the cells of a policy.
func PolicyRow(name string, rules int, param *v1.ParamKind, age string) []any {
	kind := show.Unset
	if param != nil {
		kind = param.APIVersion + "/" + param.Kind
	}
	return []any{name, int64(rules), kind, age}
}

// BindingColumns are the columns of bindings.
func BindingColumns() show.Columns {
	return show.Name().
		String("PolicyName", "PolicyName indicates the policy definition which the policy binding binded to").
		String("ParamRef", "ParamRef indicates the param resource which sets the configuration param").
		Age()
}

// BindingRow are the cells of a binding.
func BindingRow(name, policy string, param *v1.ParamRef, age string) []any {
	ref := show.Unset
	if param != nil {
		switch {
		case param.Name != "" && param.Namespace != "":
			ref = param.Namespace + "/" + param.Name
		case param.Name != "":
			ref = "*/" + param.Name
		case param.Selector != nil:
			ref = param.Selector.String()
		}
	}
	return []any{name, policy, ref, age}
}
