package admissionregistration

import (
	v1 "k8s.io/api/admissionregistration/v1"
)

// timeoutV1beta1 is what webhooks of v1beta1 have, in seconds.
const timeoutV1beta1 = 30

// DefaultValidatingV1beta1 sets the defaults of a configuration that lies in the store as of v1beta1, whose webhooks
// may fail.
func DefaultValidatingV1beta1(c *v1.ValidatingWebhookConfiguration) {
	for i := range c.Webhooks {
		w := &c.Webhooks[i]
		webhookV1beta1(&w.FailurePolicy, &w.MatchPolicy, &w.SideEffects, &w.TimeoutSeconds, &w.AdmissionReviewVersions)
	}
	DefaultValidating(c)
}

// DefaultMutatingV1beta1 does so with mutating webhooks.
func DefaultMutatingV1beta1(c *v1.MutatingWebhookConfiguration) {
	for i := range c.Webhooks {
		w := &c.Webhooks[i]
		webhookV1beta1(&w.FailurePolicy, &w.MatchPolicy, &w.SideEffects, &w.TimeoutSeconds, &w.AdmissionReviewVersions)
	}
	DefaultMutating(c)
}

func webhookV1beta1(fail **v1.FailurePolicyType, match **v1.MatchPolicyType, effects **v1.SideEffectClass,
	timeout **int32, versions *[]string) {
	setDefault(fail, v1.Ignore)
	setDefault(match, v1.Exact)
	setDefault(effects, v1.SideEffectClassUnknown)
	setDefault(timeout, timeoutV1beta1)
	if len(*versions) == 0 {
		*versions = []string{"v1beta1"}
	}
}

// DefaultValidatingBindingV1alpha1 also sets what v1alpha1 has by default, as DefaultMutatingBindingV1alpha1 does.
func DefaultValidatingBindingV1alpha1(b *v1.ValidatingAdmissionPolicyBinding) {
	DefaultValidatingBinding(b)
	if b.Spec.ParamRef != nil {
		setDefault(&b.Spec.ParamRef.ParameterNotFoundAction, v1.DenyAction)
	}
}
