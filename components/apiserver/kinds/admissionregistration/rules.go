package admissionregistration

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
)

func selector(s *metav1.LabelSelector, at *field.Path) field.ErrorList {
	return metavalidation.ValidateLabelSelector(s, metavalidation.LabelSelectorValidationOptions{}, at)
}

func validateMatch(m *v1.MatchResources, at *field.Path) field.ErrorList {
	if m == nil {
		return nil
	}
	errs := optional(m.MatchPolicy, at.Child("matchPolicy"), v1.Equivalent, v1.Exact)
	errs = append(errs, selector(m.NamespaceSelector, at.Child("namespaceSelector"))...)
	errs = append(errs, selector(m.ObjectSelector, at.Child("objectSelector"))...)
	for i := range m.ResourceRules {
		errs = append(errs, validateNamedRule(&m.ResourceRules[i], at.Child("resourceRules").Index(i))...)
	}
	for i := range m.ExcludeResourceRules {
		errs = append(errs, validateNamedRule(&m.ExcludeResourceRules[i], at.Child("excludeResourceRules").Index(i))...)
	}
	return errs
}

// onlyMutable refuses operations that have no object to mutate.
func onlyMutable(m *v1.MatchResources, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, r := range m.ResourceRules {
		for _, o := range r.Operations {
			errs = append(errs, checks.In(o, at.Child("resourceRules", "operations"), v1.OperationAll, v1.Connect,
				v1.Create, v1.Update)...)
		}
	}
	return errs
}

func validateNamedRule(r *v1.NamedRuleWithOperations, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := sets.New[string]()
	for i, name := range r.ResourceNames {
		q := at.Child("resourceNames").Index(i)
		errs = append(errs, checks.Text(name, q, content.IsPathSegmentName)...)
		if seen.Has(name) {
			errs = append(errs, field.Duplicate(q, name))
		}
		seen.Insert(name)
	}
	return append(errs, validateRule(&r.RuleWithOperations, at)...)
}

func validateRule(r *v1.RuleWithOperations, at *field.Path) field.ErrorList {
	operations := at.Child("operations")
	errs := alone(r.Operations, v1.OperationAll, operations, "operations")
	for i, o := range r.Operations {
		errs = append(errs, checks.In(o, operations.Index(i), v1.OperationAll, v1.Connect, v1.Create, v1.Delete,
			v1.Update)...)
	}
	errs = append(errs, alone(r.APIGroups, "*", at.Child("apiGroups"), "API groups")...) // "" is the core group
	errs = append(errs, alone(r.APIVersions, "*", at.Child("apiVersions"), "API versions")...)
	for i, v := range r.APIVersions {
		errs = append(errs, checks.Required(v, at.Child("apiVersions").Index(i))...)
	}
	errs = append(errs, validateResources(r.Resources, at.Child("resources"))...)
	return append(errs, optional(r.Scope, at.Child("scope"), v1.AllScopes, v1.ClusterScope, v1.NamespacedScope)...)
}

// alone checks a list that has something in it, and nothing besides what stands for all.
func alone[T ~string](list []T, all T, at *field.Path, what string) field.ErrorList {
	switch {
	case len(list) == 0:
		return field.ErrorList{field.Required(at, "")}
	case len(list) > 1 && slices.Contains(list, all):
		return field.ErrorList{field.Invalid(at, list, "if '*' is present, must not specify other "+what)}
	}
	return nil
}

// validateResources checks names of resources and subresources: what a wildcard before it says is not said again.
func validateResources(list []string, at *field.Path) field.ErrorList {
	if len(list) == 0 {
		return field.ErrorList{field.Required(at, "")}
	}
	var errs field.ErrorList
	allOf, ofAll := sets.New[string](), sets.New[string]() // x in x/*, x in */x
	plain := false                                         // the last name without a subresource is no wildcard
	for i, name := range list {
		if name == "" {
			errs = append(errs, field.Required(at.Index(i), ""))
			continue
		}
		resource, sub, has := strings.Cut(name, "/")
		if !has {
			plain = name != "*"
			continue
		}
		if allOf.Has(resource) {
			errs = append(errs, field.Invalid(at.Index(i), name,
				fmt.Sprintf("if '%s/*' is present, must not specify %s", resource, name)))
		}
		if ofAll.Has(sub) {
			errs = append(errs, field.Invalid(at.Index(i), name,
				fmt.Sprintf("if '*/%s' is present, must not specify %s", sub, name)))
		}
		if sub == "*" {
			allOf.Insert(resource)
		}
		if resource == "*" {
			ofAll.Insert(sub)
		}
	}
	if len(list) > 1 && slices.Contains(list, "*/*") {
		errs = append(errs, field.Invalid(at, list, "if '*/*' is present, must not specify other resources"))
	}
	if plain && slices.Contains(list, "*") {
		errs = append(errs, field.Invalid(at, list,
			"if '*' is present, must not specify other resources without subresources"))
	}
	return errs
}
