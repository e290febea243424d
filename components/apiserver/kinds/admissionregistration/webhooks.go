package admissionregistration

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	webhooks "k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/utils/ptr"

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
	reinvocation        *v1.ReinvocationPolicyType
	versions            []string
	conditions          []v1.MatchCondition
}

func validatingHooks(c *v1.ValidatingWebhookConfiguration) []hook {
	hooks := make([]hook, len(c.Webhooks))
	for i := range c.Webhooks {
		w := &c.Webhooks[i]
		hooks[i] = hook{
			name: w.Name, client: &w.ClientConfig, rules: w.Rules, fail: w.FailurePolicy, match: w.MatchPolicy,
			namespaces: w.NamespaceSelector, objects: w.ObjectSelector, sideEffects: w.SideEffects,
			timeout:  w.TimeoutSeconds,
			versions: w.AdmissionReviewVersions, conditions: w.MatchConditions,
		}
	}
	return hooks
}

func mutatingHooks(c *v1.MutatingWebhookConfiguration) []hook {
	hooks := make([]hook, len(c.Webhooks))
	for i := range c.Webhooks {
		w := &c.Webhooks[i]
		hooks[i] = hook{
			name: w.Name, client: &w.ClientConfig, rules: w.Rules, fail: w.FailurePolicy, match: w.MatchPolicy,
			namespaces: w.NamespaceSelector, objects: w.ObjectSelector, sideEffects: w.SideEffects,
			timeout:      w.TimeoutSeconds,
			reinvocation: w.ReinvocationPolicy, versions: w.AdmissionReviewVersions, conditions: w.MatchConditions,
		}
	}
	return hooks
}

// ValidateValidating checks a configuration of validating webhooks. old is nil for a new one.
func ValidateValidating(c, old *v1.ValidatingWebhookConfiguration) field.ErrorList {
	if old == nil {
		return strict().hooks(validatingHooks(c))
	}
	return allowing(validatingHooks(c), validatingHooks(old)).hooks(validatingHooks(c))
}

// ValidateMutating checks a configuration of mutating webhooks. old is nil for a new one.
func ValidateMutating(c, old *v1.MutatingWebhookConfiguration) field.ErrorList {
	if old == nil {
		return strict().hooks(mutatingHooks(c))
	}
	return allowing(mutatingHooks(c), mutatingHooks(old)).hooks(mutatingHooks(c))
}

// leniency is what a change may leave as bad as it was.
type leniency struct {
	sideEffects, versions, names bool
	selectors                    metavalidation.LabelSelectorValidationOptions
	sameConditions               bool
	stored                       sets.Set[string] // the expressions of the old match conditions
}

func strict() leniency { return leniency{stored: sets.New[string]()} }

func allowing(hooks, old []hook) leniency {
	l := strict()
	names := sets.New[string]()
	l.sameConditions = len(hooks) == len(old)
	for i := range old {
		h := &old[i]
		l.sideEffects = l.sideEffects || h.sideEffects == nil || !slices.Contains(noSideEffects(), *h.sideEffects)
		l.versions = l.versions || len(h.versions) > 0 && !slices.ContainsFunc(h.versions, spoken)
		l.names = l.names || names.Has(h.name)
		names.Insert(h.name)
		if len(selector(h.namespaces, nil)) > 0 || len(selector(h.objects, nil)) > 0 {
			l.selectors.AllowInvalidLabelValueInSelector = true
		}
		l.sameConditions = l.sameConditions && slices.Equal(hooks[i].conditions, h.conditions)
		for _, c := range h.conditions {
			l.stored.Insert(c.Expression)
		}
	}
	return l
}

func (l leniency) hooks(hooks []hook) field.ErrorList {
	var errs field.ErrorList
	names := sets.New[string]()
	for i := range hooks {
		h, at := &hooks[i], field.NewPath("webhooks").Index(i)
		errs = append(errs, l.hook(h, at)...)
		errs = append(errs, l.reviewVersions(h.versions, at.Child("admissionReviewVersions"))...)
		if !l.names && h.name != "" && names.Has(h.name) {
			errs = append(errs, field.Duplicate(at.Child("name"), h.name))
		}
		names.Insert(h.name)
	}
	return errs
}

func noSideEffects() []v1.SideEffectClass {
	return []v1.SideEffectClass{v1.SideEffectClassNone, v1.SideEffectClassNoneOnDryRun}
}

func (l leniency) hook(h *hook, at *field.Path) field.ErrorList {
	errs := utilvalidation.IsFullyQualifiedName(at.Child("name"), h.name)
	for i := range h.rules {
		errs = append(errs, validateRule(&h.rules[i], at.Child("rules").Index(i))...)
	}
	errs = append(errs, optional(h.fail, at.Child("failurePolicy"), v1.Fail, v1.Ignore)...)
	errs = append(errs, optional(h.match, at.Child("matchPolicy"), v1.Equivalent, v1.Exact)...)
	allowed := noSideEffects()
	if l.sideEffects {
		allowed = append(allowed, v1.SideEffectClassSome, v1.SideEffectClassUnknown)
	}
	if h.sideEffects == nil {
		errs = append(errs, field.Required(at.Child("sideEffects"), "must specify one of "+joined(allowed)))
	}
	errs = append(errs, optional(h.sideEffects, at.Child("sideEffects"), allowed...)...)
	if h.timeout != nil && (*h.timeout > 30 || *h.timeout < 1) {
		errs = append(errs, field.Invalid(at.Child("timeoutSeconds"), *h.timeout,
			"the timeout value must be between 1 and 30 seconds"))
	}
	errs = append(errs, metavalidation.ValidateLabelSelector(h.namespaces, l.selectors,
		at.Child("namespaceSelector"))...)
	errs = append(errs, metavalidation.ValidateLabelSelector(h.objects, l.selectors, at.Child("objectSelector"))...)
	errs = append(errs, optional(h.reinvocation, at.Child("reinvocationPolicy"), v1.IfNeededReinvocationPolicy,
		v1.NeverReinvocationPolicy)...)
	errs = append(errs, validateClient(h.client, at.Child("clientConfig"))...)
	if l.sameConditions {
		return errs
	}
	return append(errs, expressions{conditions: l.stored}.validateConditions(h.conditions,
		at.Child("matchConditions"))...)
}

func joined[T ~string](list []T) string {
	texts := make([]string, len(list))
	for i, v := range list {
		texts[i] = string(v)
	}
	return strings.Join(texts, ", ")
}

// optional checks a value that may be missing, but not be empty. known is sorted, as messages tell it.
func optional[T ~string](value *T, at *field.Path, known ...T) field.ErrorList {
	if value == nil {
		return nil
	}
	return checks.In(*value, at, known...)
}

func validateClient(c *v1.WebhookClientConfig, at *field.Path) field.ErrorList {
	switch s := c.Service; {
	case (c.URL == nil) == (s == nil):
		return field.ErrorList{field.Required(at, "exactly one of url or service is required")}
	case c.URL != nil:
		return webhooks.ValidateWebhookURL(at.Child("url"), *c.URL, true)
	default: // upstream, too, hands in name and namespace in this order, and its messages name the one for the other
		return webhooks.ValidateWebhookService(at.Child("service"), s.Name, s.Namespace, s.Path,
			ptr.Deref(s.Port, webhookPort))
	}
}

// spokenVersions are the versions of AdmissionReview that the server speaks.
func spokenVersions() []string { return []string{"v1", "v1beta1"} }

func spoken(version string) bool { return slices.Contains(spokenVersions(), version) }

func (l leniency) reviewVersions(list []string, at *field.Path) field.ErrorList {
	if len(list) == 0 {
		return field.ErrorList{field.Required(at, "must specify one of "+joined(spokenVersions()))}
	}
	var errs field.ErrorList
	seen := sets.New[string]()
	for i, v := range list {
		if seen.Has(v) {
			errs = append(errs, field.Invalid(at.Index(i), v, "duplicate version"))
			continue
		}
		seen.Insert(v)
		errs = append(errs, checks.Text(v, at.Index(i), utilvalidation.IsDNS1035Label)...)
	}
	if !l.versions && !slices.ContainsFunc(list, spoken) {
		errs = append(errs, field.Invalid(at, list,
			fmt.Sprintf("must include at least one of %v", joined(spokenVersions()))))
	}
	return errs
}
