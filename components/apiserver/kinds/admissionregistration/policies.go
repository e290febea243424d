package admissionregistration

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/admissionregistration/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
)

// policy is what policies of both kinds share.
type policy struct {
	fail       *v1.FailurePolicyType
	param      *v1.ParamKind
	match      *v1.MatchResources
	conditions []v1.MatchCondition
	variables  []v1.Variable
}

func validatingPolicy(s *v1.ValidatingAdmissionPolicySpec) policy {
	return policy{s.FailurePolicy, s.ParamKind, s.MatchConstraints, s.MatchConditions, s.Variables}
}

func mutatingPolicy(s *v1.MutatingAdmissionPolicySpec) policy {
	return policy{s.FailurePolicy, s.ParamKind, s.MatchConstraints, s.MatchConditions, s.Variables}
}

// sameConditions reports whether a change leaves alone all that match conditions depend on.
func (p policy) sameConditions(old policy) bool {
	return apiequality.Semantic.DeepEqual(p.param, old.param) &&
		apiequality.Semantic.DeepEqual(p.conditions, old.conditions)
}

// ValidateValidatingPolicy checks a validating policy. old is nil for a new one.
func ValidateValidatingPolicy(p, old *v1.ValidatingAdmissionPolicy) field.ErrorList {
	at, s := field.NewPath("spec"), &p.Spec
	e := expressions{params: s.ParamKind != nil, compiler: plain()}
	if len(s.Variables) > 0 {
		compiler, err := composing()
		if err != nil {
			return field.ErrorList{field.InternalError(at, err)}
		}
		e.compiler = compiler
	}
	same := false
	if old != nil {
		same = validatingPolicy(s).sameConditions(validatingPolicy(&old.Spec))
		e.storedIn(&old.Spec)
	}
	errs := e.validatePolicy(validatingPolicy(s), same, at, nil)
	if len(s.Validations) == 0 && len(s.AuditAnnotations) == 0 {
		const either = "validations or auditAnnotations must contain at least one item"
		return append(errs, field.Required(at.Child("validations"), either),
			field.Required(at.Child("auditAnnotations"), either))
	}
	for i := range s.Validations {
		errs = append(errs, e.validation(&s.Validations[i], at.Child("validations").Index(i))...)
	}
	return append(errs, e.annotationList(p.Name, s.AuditAnnotations, at.Child("auditAnnotations"))...)
}

// storedIn notes the expressions of a stored policy.
func (e *expressions) storedIn(s *v1.ValidatingAdmissionPolicySpec) {
	e.conditions, e.validations, e.messages, e.annotations = sets.New[string](), sets.New[string](), sets.New[string](),
		sets.New[string]()
	for _, c := range s.MatchConditions {
		e.conditions.Insert(c.Expression)
	}
	for _, v := range s.Validations {
		e.validations.Insert(v.Expression)
		e.messages.Insert(v.MessageExpression)
	}
	for _, a := range s.AuditAnnotations {
		e.annotations.Insert(a.ValueExpression)
	}
}

// validatePolicy checks what policies of both kinds share; extra checks more of the rules.
func (e expressions) validatePolicy(p policy, sameConditions bool, at *field.Path,
	extra func(*v1.MatchResources, *field.Path) field.ErrorList) field.ErrorList {
	errs := optional(p.fail, at.Child("failurePolicy"), v1.Fail, v1.Ignore)
	if p.param != nil {
		errs = append(errs, validateParamKind(p.param, at.Child("paramKind"))...)
	}
	match := at.Child("matchConstraints")
	if p.match == nil {
		errs = append(errs, field.Required(match, ""))
	} else {
		errs = append(errs, validateMatch(p.match, match)...)
		if len(p.match.ResourceRules) == 0 { // they say which types the expressions see
			errs = append(errs, field.Required(match.Child("resourceRules"), ""))
		}
		if extra != nil {
			errs = append(errs, extra(p.match, match)...)
		}
	}
	if !sameConditions {
		errs = append(errs, e.validateConditions(p.conditions, at.Child("matchConditions"))...)
	}
	return append(errs, e.validateVariables(p.variables, at.Child("variables"))...)
}

func validateParamKind(k *v1.ParamKind, at *field.Path) field.ErrorList {
	errs := validateAPIVersion(k.APIVersion, at.Child("apiVersion"))
	if k.Kind == "" {
		return append(errs, field.Required(at.Child("kind"), ""))
	}
	if msgs := utilvalidation.IsDNS1035Label(strings.ToLower(k.Kind)); len(msgs) > 0 {
		errs = append(errs, field.Invalid(at.Child("kind"), k.Kind,
			"may have mixed case, but should otherwise match: "+strings.Join(msgs, ",")))
	}
	return errs
}

func validateAPIVersion(text string, at *field.Path) field.ErrorList {
	if text == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	var errs field.ErrorList
	group, version, has := strings.Cut(text, "/")
	switch {
	case !has:
		group, version = "", text
	case strings.Contains(version, "/"):
		return field.ErrorList{field.Invalid(at, text, "unexpected GroupVersion string: "+text)}
	}
	if group != "" {
		if msgs := utilvalidation.IsDNS1123Subdomain(group); len(msgs) > 0 {
			errs = append(errs, field.Invalid(at, group, strings.Join(msgs, ",")))
		}
	}
	if version == "" {
		return append(errs, field.Invalid(at, text, "version must be specified"))
	}
	if msgs := utilvalidation.IsDNS1035Label(version); len(msgs) > 0 {
		errs = append(errs, field.Invalid(at, version, strings.Join(msgs, ",")))
	}
	return errs
}

func (e expressions) validation(v *v1.Validation, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if strings.TrimSpace(v.Expression) == "" {
		errs = append(errs, field.Required(at.Child("expression"), "expression is not specified"))
	} else {
		errs = append(errs, compile(e.compiler, &validating.ValidationCondition{Expression: v.Expression},
			e.variables(),
			typeIn(e.validations, v.Expression), v.Expression, at.Child("expression"))...)
	}
	if text := v.MessageExpression; text != "" {
		q := at.Child("messageExpression")
		if strings.TrimSpace(text) == "" {
			errs = append(errs, field.Invalid(q, text, "must be non-empty if specified"))
		} else {
			errs = append(errs, compile(e.compiler, &validating.MessageExpressionCondition{MessageExpression: text},
				plugincel.OptionalVariableDeclarations{HasParams: e.params}, typeIn(e.messages, text), text, q)...)
		}
	}
	if v.Message != "" {
		switch text := strings.TrimSpace(v.Message); {
		case text == "":
			errs = append(errs, field.Invalid(at.Child("message"), v.Message, "must be non-empty if specified"))
		case strings.ContainsAny(text, "\n\r"):
			errs = append(errs, field.Invalid(at.Child("message"), v.Message, "must not contain line breaks"))
		}
	}
	return append(errs, optional(v.Reason, at.Child("reason"),
		metav1.StatusReasonForbidden, metav1.StatusReasonInvalid, metav1.StatusReasonRequestEntityTooLarge)...)
}

// Bounds of audit annotations.
const (
	maxAnnotations = 20
	maxValueLength = 5 * 1024
)

func (e expressions) annotationList(policy string, list []v1.AuditAnnotation, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(list) > maxAnnotations {
		errs = append(errs, field.Invalid(path, checks.Unversioned(list),
			fmt.Sprintf("must not have more than %d auditAnnotations", maxAnnotations)))
	}
	keys := sets.New[string]()
	for i, a := range list {
		at := path.Index(i)
		if policy == "" {
			errs = append(errs, field.Invalid(at.Child("key"), a.Key, "requires metadata.name be non-empty"))
		} else {
			errs = append(errs, checks.Text(policy+"/"+a.Key, at.Child("key"), utilvalidation.IsQualifiedName)...)
		}
		q := at.Child("valueExpression")
		switch text := strings.TrimSpace(a.ValueExpression); {
		case text == "":
			errs = append(errs, field.Required(q, "valueExpression is not specified"))
		case len(text) > maxValueLength:
			errs = append(errs, field.Required(q, fmt.Sprintf("must not exceed %d bytes in length", maxValueLength)))
		default:
			errs = append(errs, compile(e.compiler, &validating.AuditAnnotationCondition{ValueExpression: text},
				e.variables(),
				typeIn(e.annotations, a.ValueExpression), a.ValueExpression, q)...)
		}
		if keys.Has(a.Key) {
			errs = append(errs, field.Duplicate(at.Child("key"), a.Key))
		}
		keys.Insert(a.Key)
	}
	return errs
}

// ValidateMutatingPolicy checks a mutating policy. old is nil for a new one.
func ValidateMutatingPolicy(p, old *v1.MutatingAdmissionPolicy) field.ErrorList {
	at, s := field.NewPath("spec"), &p.Spec
	compiler, err := composing()
	if err != nil {
		return field.ErrorList{field.InternalError(at, err)}
	}
	e, same := expressions{params: s.ParamKind != nil, compiler: compiler}, false
	if old != nil {
		same = mutatingPolicy(s).sameConditions(mutatingPolicy(&old.Spec))
		e.conditions, e.patches = sets.New[string](), sets.New[string]()
		for _, c := range old.Spec.MatchConditions {
			e.conditions.Insert(c.Expression)
		}
		for _, m := range old.Spec.Mutations {
			if m.ApplyConfiguration != nil {
				e.patches.Insert(m.ApplyConfiguration.Expression)
			}
		}
	}
	errs := e.validatePolicy(mutatingPolicy(s), same, at, onlyMutable)
	if len(s.Mutations) == 0 {
		errs = append(errs, field.Required(at.Child("mutations"), "mutations must contain at least one item"))
	}
	for i := range s.Mutations {
		errs = append(errs, e.mutation(&s.Mutations[i], at.Child("mutations").Index(i))...)
	}
	return append(errs, checks.OneOf(s.ReinvocationPolicy, at.Child("reinvocationPolicy"),
		v1.IfNeededReinvocationPolicy, v1.NeverReinvocationPolicy)...)
}

func (e expressions) mutation(m *v1.Mutation, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	apply, json := at.Child("applyConfiguration"), at.Child("jsonPatch")
	switch m.PatchType {
	case v1.PatchTypeJSONPatch:
		if m.JSONPatch == nil {
			errs = append(errs, field.Required(json, "must be specified when patchType is JSONPatch"))
		} else {
			text := strings.TrimSpace(m.JSONPatch.Expression)
			errs = append(errs, e.patch(&patch.JSONPatchCondition{Expression: text}, m.JSONPatch.Expression,
				json.Child("expression"))...)
		}
		if m.ApplyConfiguration != nil {
			errs = append(errs, field.Invalid(apply, "{applyConfiguration}",
				"must not be specified when patchType is JSONPatch"))
		}
	case v1.PatchTypeApplyConfiguration:
		if m.ApplyConfiguration == nil {
			errs = append(errs, field.Required(apply, "must be specified when patchType is ApplyConfiguration"))
		} else {
			text := strings.TrimSpace(m.ApplyConfiguration.Expression)
			errs = append(errs, e.patch(&patch.ApplyConfigurationCondition{Expression: text},
				m.ApplyConfiguration.Expression, apply.Child("expression"))...)
		}
		if m.JSONPatch != nil {
			errs = append(errs, field.Invalid(json, "{jsonPatch}",
				"must not be specified when patchType is ApplyConfiguration"))
		}
	default:
		return checks.OneOf(m.PatchType, at.Child("patchType"), v1.PatchTypeApplyConfiguration, v1.PatchTypeJSONPatch)
	}
	return errs
}

func (e expressions) patch(p plugincel.ExpressionAccessor, written string, at *field.Path) field.ErrorList {
	if p.GetExpression() == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	vars := e.variables()
	vars.HasPatchTypes = true
	return compile(e.compiler, p, vars, typeIn(e.patches, written), p.GetExpression(), at)
}
