package flowcontrol

import (
	"fmt"
	"slices"
	"strings"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
)

const maxPrecedence = 10_000

// ValidateSchema checks a flow schema.
func ValidateSchema(s *flowcontrolv1.FlowSchema) field.ErrorList {
	at := field.NewPath("spec")
	errs := validateSchemaSpec(s, at)
	for _, fixed := range bootstrap.MandatoryFlowSchemas {
		if fixed.Name != s.Name {
			continue
		}
		want := fixed.DeepCopy()
		DefaultSchema(want)
		if !apiequality.Semantic.DeepEqual(s.Spec, want.Spec) {
			errs = append(errs, field.Invalid(at, checks.Unversioned(s.Spec),
				fmt.Sprintf("spec of '%s' must equal the fixed value", s.Name)))
		}
	}
	return append(errs, ValidateSchemaStatus(&s.Status)...)
}

// ValidateSchemaStatus checks the status of a flow schema.
func ValidateSchemaStatus(s *flowcontrolv1.FlowSchemaStatus) field.ErrorList {
	types := make([]flowcontrolv1.FlowSchemaConditionType, len(s.Conditions))
	for i, c := range s.Conditions {
		types[i] = c.Type
	}
	return validateConditions(types)
}

func validateConditions[T ~string](types []T) field.ErrorList {
	var errs field.ErrorList
	seen := sets.New[T]()
	for i, t := range types {
		at := field.NewPath("status", "conditions").Index(i).Child("type")
		if seen.Has(t) {
			errs = append(errs, field.Duplicate(at, t))
		}
		seen.Insert(t)
		errs = append(errs, checks.Required(string(t), at)...)
	}
	return errs
}

func validateSchemaSpec(s *flowcontrolv1.FlowSchema, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	p, precedence := s.Spec.MatchingPrecedence, at.Child("matchingPrecedence")
	switch {
	case p <= 0:
		errs = append(errs, field.Invalid(precedence, p, "must be a positive value"))
	case p > maxPrecedence:
		errs = append(errs, field.Invalid(precedence, p, fmt.Sprintf("must not be greater than %v", maxPrecedence)))
	case p == 1 && s.Name != flowcontrolv1.FlowSchemaNameExempt:
		errs = append(errs, field.Invalid(precedence, p,
			"only the schema named 'exempt' may have matchingPrecedence 1"))
	}
	methods := []flowcontrolv1.FlowDistinguisherMethodType{
		flowcontrolv1.FlowDistinguisherMethodByNamespaceType, flowcontrolv1.FlowDistinguisherMethodByUserType,
	}
	if d := s.Spec.DistinguisherMethod; d != nil && !slices.Contains(methods, d.Type) {
		errs = append(errs, field.NotSupported(at.Child("distinguisherMethod", "type"), checks.Unversioned(d), methods))
	}
	level := at.Child("priorityLevelConfiguration", "name")
	if name := s.Spec.PriorityLevelConfiguration.Name; name == "" {
		errs = append(errs, field.Required(level, "must reference a priority level"))
	} else {
		errs = append(errs, checks.Text(name, level, checks.Subdomain)...)
	}
	for i := range s.Spec.Rules {
		errs = append(errs, validateRule(&s.Spec.Rules[i], at.Child("rules").Index(i))...)
	}
	return errs
}

func validateRule(r *flowcontrolv1.PolicyRulesWithSubjects, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(r.Subjects) == 0 {
		errs = append(errs, field.Required(at.Child("subjects"), "subjects must contain at least one value"))
	}
	for i := range r.Subjects {
		errs = append(errs, validateSubject(&r.Subjects[i], at.Child("subjects").Index(i))...)
	}
	if len(r.ResourceRules) == 0 && len(r.NonResourceRules) == 0 {
		errs = append(errs, field.Required(at,
			"at least one of resourceRules and nonResourceRules has to be non-empty"))
	}
	for i := range r.ResourceRules {
		errs = append(errs, validateResourceRule(&r.ResourceRules[i], at.Child("resourceRules").Index(i))...)
	}
	for i := range r.NonResourceRules {
		errs = append(errs, validateNonResourceRule(&r.NonResourceRules[i], at.Child("nonResourceRules").Index(i))...)
	}
	return errs
}

// validateSubject checks a subject: it has the part that its kind names, and no other.
func validateSubject(s *flowcontrolv1.Subject, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	account, user, group := at.Child("serviceAccount"), at.Child("user"), at.Child("group")
	switch s.Kind {
	case flowcontrolv1.SubjectKindServiceAccount:
		errs = append(errs, validateAccount(s.ServiceAccount, account)...)
	case flowcontrolv1.SubjectKindUser:
		if s.User == nil {
			errs = append(errs, field.Required(user, "user is required when subject kind is 'User'"))
		} else {
			errs = append(errs, checks.Required(s.User.Name, user.Child("name"))...)
		}
	case flowcontrolv1.SubjectKindGroup:
		if s.Group == nil {
			errs = append(errs, field.Required(group, "group is required when subject kind is 'Group'"))
		} else {
			errs = append(errs, checks.Required(s.Group.Name, group.Child("name"))...)
		}
	default:
		return checks.In(s.Kind, at.Child("kind"), flowcontrolv1.SubjectKindGroup,
			flowcontrolv1.SubjectKindServiceAccount, flowcontrolv1.SubjectKindUser)
	}
	for _, part := range []struct {
		set  bool
		kind flowcontrolv1.SubjectKind
		path *field.Path
		name string
	}{
		{s.ServiceAccount != nil, flowcontrolv1.SubjectKindServiceAccount, account, "serviceAccount"},
		{s.User != nil, flowcontrolv1.SubjectKindUser, user, "user"},
		{s.Group != nil, flowcontrolv1.SubjectKindGroup, group, "group"},
	} {
		if part.set && s.Kind != part.kind {
			errs = append(errs, field.Forbidden(part.path,
				fmt.Sprintf("%s is forbidden when subject kind is not '%s'", part.name, part.kind)))
		}
	}
	return errs
}

func validateAccount(a *flowcontrolv1.ServiceAccountSubject, at *field.Path) field.ErrorList {
	if a == nil {
		return field.ErrorList{field.Required(at, "serviceAccount is required when subject kind is 'ServiceAccount'")}
	}
	errs := checks.Required(a.Name, at.Child("name"))
	if a.Name != "" && a.Name != flowcontrolv1.NameAll {
		errs = append(errs, checks.Text(a.Name, at.Child("name"), accountName)...)
	}
	if a.Namespace == "" {
		return append(errs, field.Required(at.Child("namespace"), "must specify namespace for service account"))
	}
	return append(errs, checks.Text(a.Namespace, at.Child("namespace"), namespaceName)...)
}

func accountName(name string) []string { return validation.ValidateServiceAccountName(name, false) }

func namespaceName(name string) []string { return validation.ValidateNamespaceName(name, false) }

func validateResourceRule(r *flowcontrolv1.ResourcePolicyRule, at *field.Path) field.ErrorList {
	errs := validateVerbs(r.Verbs, at.Child("verbs"))
	errs = append(errs, alone(r.APIGroups, at.Child("apiGroups"), "resource rules must supply at least one api group",
		"api groups")...)
	errs = append(errs, alone(r.Resources, at.Child("resources"), "resource rules must supply at least one resource",
		"resources")...)
	namespaces := at.Child("namespaces")
	if len(r.Namespaces) > 0 || !r.ClusterScope {
		errs = append(errs, alone(r.Namespaces, namespaces,
			"resource rules that are not cluster scoped must supply at least one namespace", "namespaces")...)
	}
	if slices.Contains(r.Namespaces, flowcontrolv1.NamespaceEvery) {
		return errs
	}
	for i, ns := range r.Namespaces {
		for _, msg := range namespaceName(ns) {
			errs = append(errs, field.Invalid(namespaces.Index(i), ns,
				"each member of this list must be '*' or a DNS-1123 label; "+msg))
		}
	}
	return errs
}

func validateNonResourceRule(r *flowcontrolv1.NonResourcePolicyRule, at *field.Path) field.ErrorList {
	errs := validateVerbs(r.Verbs, at.Child("verbs"))
	urls := at.Child("nonResourceURLs")
	errs = append(errs, alone(r.NonResourceURLs, urls, "nonResourceURLs must contain at least one value",
		"non-resource URLs")...)
	if slices.Contains(r.NonResourceURLs, flowcontrolv1.NonResourceAll) {
		return errs
	}
	for i, u := range r.NonResourceURLs {
		if msg := urlFault(u); msg != "" {
			errs = append(errs, field.Invalid(urls.Index(i), u, msg))
		}
	}
	return errs
}

func validateVerbs(list []string, at *field.Path) field.ErrorList {
	errs := alone(list, at, "verbs must contain at least one value", "verbs")
	if slices.Contains(list, flowcontrolv1.VerbAll) {
		return errs
	}
	known := []string{"create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"}
	if !sets.New(known...).HasAll(list...) {
		errs = append(errs, field.NotSupported(at, list, known))
	}
	return errs
}

// alone checks a list that has something in it, and nothing besides what stands for all.
func alone(list []string, at *field.Path, missing, what string) field.ErrorList {
	switch {
	case len(list) == 0:
		return field.ErrorList{field.Required(at, missing)}
	case len(list) > 1 && slices.Contains(list, "*"):
		return field.ErrorList{field.Invalid(at, list, "if '*' is present, must not specify other "+what)}
	}
	return nil
}

// urlFault tells what is wrong with the path of a non-resource URL, "" if nothing is.
func urlFault(path string) string {
	switch wildcards := strings.Count(path, "*"); {
	case path == "":
		return "must not be empty"
	case path[0] != '/':
		return "must start with slash"
	case strings.Contains(path, " "):
		return "must not contain white-space"
	case strings.Contains(path, "//"):
		return "must not contain double slash"
	case wildcards > 1 || wildcards == 1 && !strings.HasSuffix(path, "/*"):
		return "wildcard can only do suffix matching"
	}
	return ""
}
