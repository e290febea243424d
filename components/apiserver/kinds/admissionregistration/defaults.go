package admissionregistration

import (
	v1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Defaults of webhooks.
const (
	timeoutSeconds = 10
	webhookPort    = 443
)

// DefaultValidating sets the defaults of a configuration of validating webhooks.
func DefaultValidating(c *v1.ValidatingWebhookConfiguration) {
	for i := range c.Webhooks {
		w := &c.Webhooks[i]
		webhook(&w.FailurePolicy, &w.MatchPolicy, &w.NamespaceSelector, &w.ObjectSelector, &w.TimeoutSeconds)
		rules(w.Rules, &w.ClientConfig)
	}
}

// DefaultMutating sets the defaults of a configuration of mutating webhooks.
func DefaultMutating(c *v1.MutatingWebhookConfiguration) {
	for i := range c.Webhooks {
		w := &c.Webhooks[i]
		webhook(&w.FailurePolicy, &w.MatchPolicy, &w.NamespaceSelector, &w.ObjectSelector, &w.TimeoutSeconds)
		setDefault(&w.ReinvocationPolicy, v1.NeverReinvocationPolicy)
		rules(w.Rules, &w.ClientConfig)
	}
}

func webhook(fail **v1.FailurePolicyType, match **v1.MatchPolicyType, namespaces, objects **metav1.LabelSelector,
	timeout **int32) {
	setDefault(fail, v1.Fail)
	setDefault(match, v1.Equivalent)
	setDefault(namespaces, metav1.LabelSelector{})
	setDefault(objects, metav1.LabelSelector{})
	setDefault(timeout, timeoutSeconds)
}

func rules(list []v1.RuleWithOperations, c *v1.WebhookClientConfig) {
	for i := range list {
		setDefault(&list[i].Scope, v1.AllScopes)
	}
	if c.Service != nil {
		setDefault(&c.Service.Port, webhookPort)
	}
}

// DefaultValidatingPolicy sets the defaults of a validating policy.
func DefaultValidatingPolicy(p *v1.ValidatingAdmissionPolicy) {
	setDefault(&p.Spec.FailurePolicy, v1.Fail)
	matching(p.Spec.MatchConstraints)
}

// DefaultValidatingBinding sets the defaults of a binding of a validating policy.
func DefaultValidatingBinding(b *v1.ValidatingAdmissionPolicyBinding) {
	matching(b.Spec.MatchResources)
}

// DefaultMutatingPolicy sets the defaults of a mutating policy.
func DefaultMutatingPolicy(p *v1.MutatingAdmissionPolicy) {
	setDefault(&p.Spec.FailurePolicy, v1.Fail)
	matching(p.Spec.MatchConstraints)
}

// DefaultMutatingBinding sets the defaults of a binding of a mutating policy.
func DefaultMutatingBinding(b *v1.MutatingAdmissionPolicyBinding) { matching(b.Spec.MatchResources) }

// DefaultMutatingBindingV1alpha1 also sets what v1alpha1 has by default: parameters that aren't found are a reason to
// refuse.
func DefaultMutatingBindingV1alpha1(b *v1.MutatingAdmissionPolicyBinding) {
	DefaultMutatingBinding(b)
	if b.Spec.ParamRef != nil {
		setDefault(&b.Spec.ParamRef.ParameterNotFoundAction, v1.DenyAction)
	}
}

func matching(m *v1.MatchResources) {
	if m == nil {
		return
	}
	setDefault(&m.MatchPolicy, v1.Equivalent)
	setDefault(&m.NamespaceSelector, metav1.LabelSelector{})
	setDefault(&m.ObjectSelector, metav1.LabelSelector{})
	for _, list := range [][]v1.NamedRuleWithOperations{m.ResourceRules, m.ExcludeResourceRules} {
		for i := range list {
			setDefault(&list[i].Scope, v1.AllScopes)
		}
	}
}

func setDefault[T any](p **T, value T) {
	if *p == nil {
		*p = &value
	}
}
