package admissionregistration

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	v1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
)

// hook is what webhooks of both kinds share.
type hook struct {
	name                string
	client              *v1.WebhookClientConfig
	rules               []v1.RuleWithOperations
	fail                *v1.FailurePolicyType
	match               *v1.MatchPolicyType
	namespaces, objects *metav1.LabelSelector
	sideEffects         *v1.SideEffectClass
	timeout             *int32
	versions            []string
	conditions          []v1.MatchCondition
}

// ValidateValidating checks a configuration of validating webhooks.
func ValidateValidating(c *v1.ValidatingWebhookConfiguration) field.ErrorList {
	hooks := make([]hook, len(c.Webhooks))
	for i := range c.Webhooks {
		w := &c.Webhooks[i]
		hooks[i] = hook{w.Name, &w.ClientConfig, w.Rules, w.FailurePolicy, w.MatchPolicy, w.NamespaceSelector,
			w.ObjectSelector, w.SideEffects, w.TimeoutSeconds, w.AdmissionReviewVersions, w.MatchConditions}
	}
	return validateHooks(hooks)
}

// ValidateMutating checks a configuration of mutating webhooks.
func ValidateMutating(c *v1.MutatingWebhookConfiguration) field.ErrorList {
	var errs field.ErrorList
	hooks := make([]hook, len(c.Webhooks))
	for i := range c.Webhooks {
		w := &c.Webhooks[i]
		hooks[i] = hook{w.Name, &w.ClientConfig, w.Rules, w.FailurePolicy, w.MatchPolicy, w.NamespaceSelector,
			w.ObjectSelector, w.SideEffects, w.TimeoutSeconds, w.AdmissionReviewVersions, w.MatchConditions}
		if p := w.ReinvocationPolicy; p != nil {
			errs = append(errs, checks.OneOf(*p, field.NewPath("webhooks").Index(i).Child("reinvocationPolicy"),
				v1.IfNeededReinvocationPolicy, v1.NeverReinvocationPolicy)...)
		}
	}
	return append(validateHooks(hooks), errs...)
}

func validateHooks(hooks []hook) field.ErrorList {
	var errs field.ErrorList
	names := sets.New[string]()
	for i := range hooks {
		h, at := &hooks[i], field.NewPath("webhooks").Index(i)
		errs = append(errs, utilvalidation.IsFullyQualifiedName(at.Child("name"), h.name)...)
		if names.Has(h.name) {
			errs = append(errs, field.Duplicate(at.Child("name"), h.name))
		}
		names.Insert(h.name)
		errs = append(errs, validateHook(h, at)...)
	}
	return errs
}

func validateHook(h *hook, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range h.rules {
		errs = append(errs, validateRule(&h.rules[i], at.Child("rules").Index(i))...)
	}
	if h.fail != nil {
		errs = append(errs, checks.OneOf(*h.fail, at.Child("failurePolicy"), v1.Fail, v1.Ignore)...)
	}
	if h.match != nil {
		errs = append(errs, checks.OneOf(*h.match, at.Child("matchPolicy"), v1.Equivalent, v1.Exact)...)
	}
	if h.sideEffects == nil {
		errs = append(errs, field.Required(at.Child("sideEffects"), "must specify one of None, NoneOnDryRun"))
	} else {
		errs = append(errs, checks.OneOf(*h.sideEffects, at.Child("sideEffects"), v1.SideEffectClassNone, v1.SideEffectClassNoneOnDryRun)...)
	}
	if h.timeout != nil && (*h.timeout > 30 || *h.timeout < 1) {
		errs = append(errs, field.Invalid(at.Child("timeoutSeconds"), *h.timeout, "the timeout value must be between 1 and 30 seconds"))
	}
	errs = append(errs, selector(h.namespaces, at.Child("namespaceSelector"))...)
	errs = append(errs, selector(h.objects, at.Child("objectSelector"))...)
	errs = append(errs, validateClient(h.client, at.Child("clientConfig"))...)
	errs = append(errs, validateReviewVersions(h.versions, at.Child("admissionReviewVersions"))...)
	return append(errs, validateConditions(h.conditions, at.Child("matchConditions"))...)
}

func selector(s *metav1.LabelSelector, at *field.Path) field.ErrorList {
	return metavalidation.ValidateLabelSelector(s, metavalidation.LabelSelectorValidationOptions{}, at)
}

// reviewVersions are the versions of AdmissionReview that the server speaks.
var reviewVersions = sets.New("v1", "v1beta1")

func validateReviewVersions(list []string, at *field.Path) field.ErrorList {
	if len(list) < 1 {
		return field.ErrorList{field.Required(at, fmt.Sprintf("must specify one of %v", strings.Join(sets.List(reviewVersions), ", ")))}
	}
	var errs field.ErrorList
	seen, known := sets.New[string](), false
	for i, v := range list {
		if seen.Has(v) {
			errs = append(errs, field.Invalid(at.Index(i), v, "duplicate version"))
			continue
		}
		seen.Insert(v)
		errs = append(errs, checks.Text(v, at.Index(i), utilvalidation.IsDNS1035Label)...)
		known = known || reviewVersions.Has(v)
	}
	if !known {
		errs = append(errs, field.Invalid(at, list, fmt.Sprintf("must include at least one of %v", strings.Join(sets.List(reviewVersions), ", "))))
	}
	return errs
}

func validateRule(r *v1.RuleWithOperations, at *field.Path) field.ErrorList {
	errs := wildcard(r.APIGroups, at.Child("apiGroups"), "*", "if '*' is present, must not specify other API groups")
	for _, f := range []struct {
		name  string
		list  []string
		other string
	}{{"apiVersions", r.APIVersions, "if '*' is present, must not specify other API versions"}, {"resources", r.Resources, "if '*/*' is present, must not specify other resources"}} {
		errs = append(errs, wildcard(f.list, at.Child(f.name), map[string]string{"apiVersions": "*", "resources": "*/*"}[f.name], f.other)...)
		for i, v := range f.list {
			if v == "" {
				errs = append(errs, field.Required(at.Child(f.name).Index(i), ""))
			}
		}
	}
	if len(r.Operations) == 0 {
		errs = append(errs, field.Required(at.Child("operations"), ""))
	}
	if len(r.Operations) > 1 && slices.Contains(r.Operations, v1.OperationAll) {
		errs = append(errs, field.Invalid(at.Child("operations"), r.Operations, "if '*' is present, must not specify other operations"))
	}
	for i, o := range r.Operations {
		errs = append(errs, checks.OneOf(o, at.Child("operations").Index(i), v1.OperationAll, v1.Connect, v1.Create, v1.Delete, v1.Update)...)
	}
	if r.Scope != nil {
		errs = append(errs, checks.OneOf(*r.Scope, at.Child("scope"), v1.AllScopes, v1.ClusterScope, v1.NamespacedScope)...)
	}
	return errs
}

func wildcard(list []string, at *field.Path, all, message string) field.ErrorList {
	if len(list) == 0 {
		return field.ErrorList{field.Required(at, "")}
	}
	if len(list) > 1 && slices.Contains(list, all) {
		return field.ErrorList{field.Invalid(at, list, message)}
	}
	return nil
}

func validateClient(c *v1.WebhookClientConfig, at *field.Path) field.ErrorList {
	switch {
	case (c.URL == nil) == (c.Service == nil):
		return field.ErrorList{field.Required(at, "exactly one of url or service is required")}
	case c.URL != nil:
		return validateURL(*c.URL, at.Child("url"))
	}
	var errs field.ErrorList
	s := at.Child("service")
	errs = append(errs, requiredText(c.Service.Name, s.Child("name"), "service name is required")...)
	errs = append(errs, requiredText(c.Service.Namespace, s.Child("namespace"), "service namespace is required")...)
	if c.Service.Port != nil {
		for _, msg := range utilvalidation.IsValidPortNum(int(*c.Service.Port)) {
			errs = append(errs, field.Invalid(s.Child("port"), *c.Service.Port, "port is not valid: "+msg))
		}
	}
	if p := c.Service.Path; p != nil && *p != "" && *p != "/" && !strings.HasPrefix(*p, "/") {
		errs = append(errs, field.Invalid(s.Child("path"), *p, "must start with a '/'"))
	}
	return errs
}

func requiredText(value string, at *field.Path, message string) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(at, message)}
	}
	return nil
}

func validateURL(text string, at *field.Path) field.ErrorList {
	const form = "; desired format: https://host[/path]"
	u, err := url.Parse(text)
	if err != nil {
		return field.ErrorList{field.Required(at, "url must be a valid URL: "+err.Error()+form)}
	}
	var errs field.ErrorList
	if u.Scheme != "https" {
		errs = append(errs, field.Invalid(at, u.Scheme, "'https' is the only allowed URL scheme"+form))
	}
	if u.Host == "" {
		errs = append(errs, field.Invalid(at, u.Host, "host must be specified"+form))
	}
	if u.User != nil {
		errs = append(errs, field.Invalid(at, u.User.String(), "user information is not permitted in the URL"))
	}
	if u.Fragment != "" {
		errs = append(errs, field.Invalid(at, u.Fragment, "fragments are not permitted in the URL"))
	}
	if u.RawQuery != "" {
		errs = append(errs, field.Invalid(at, u.RawQuery, "query parameters are not permitted in the URL"))
	}
	return errs
}

// maxConditions bounds the match conditions of a webhook or policy.
const maxConditions = 64

func validateConditions(list []v1.MatchCondition, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(list) > maxConditions {
		errs = append(errs, field.TooMany(path, len(list), maxConditions))
	}
	names := sets.New[string]()
	for i, c := range list {
		at := path.Index(i)
		if strings.TrimSpace(c.Expression) == "" {
			errs = append(errs, field.Required(at.Child("expression"), ""))
		}
		if c.Name == "" {
			errs = append(errs, field.Required(at.Child("name"), ""))
			continue
		}
		errs = append(errs, checks.Text(c.Name, at.Child("name"), utilvalidation.IsQualifiedName)...)
		if names.Has(c.Name) {
			errs = append(errs, field.Duplicate(at.Child("name"), c.Name))
		}
		names.Insert(c.Name)
	}
	return errs
}
