package dynamic

import (
	"bytes"
	"fmt"
	"io"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	policyconfig "k8s.io/apiserver/pkg/admission/plugin/policy/config"
	mutatingpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	validatingpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	webhookconfig "k8s.io/apiserver/pkg/admission/plugin/webhook/config"
	mutatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/mutating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"
	validatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/validating"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/util/webhook"
)

// The plug-ins' names.
const (
	MutatingPolicy    = mutatingpolicy.PluginName
	MutatingWebhook   = mutatingwebhook.PluginName
	ValidatingPolicy  = validatingpolicy.PluginName
	ValidatingWebhook = validatingwebhook.PluginName
)

// NewMutatingWebhook returns the plug-in with its configuration (WebhookAdmissionConfiguration; nil for none).
func NewMutatingWebhook(config *Config, file []byte) (Mutator, error) {
	return Mutator{newLazy(config, "mutatingwebhookconfigurations", rules.IsExemptAdmissionConfigurationResource,
		func(parts) (admission.Interface, error) {
			return mutatingwebhook.NewMutatingWebhook(reader(file))
		}, admission.Connect, admission.Create, admission.Delete, admission.Update)}, checkWebhooks(file)
}

// NewValidatingWebhook returns the plug-in with its configuration (WebhookAdmissionConfiguration; nil for none).
func NewValidatingWebhook(config *Config, file []byte) (Validator, error) {
	return Validator{newLazy(config, "validatingwebhookconfigurations", rules.IsExemptAdmissionConfigurationResource,
		func(parts) (admission.Interface, error) {
			return validatingwebhook.NewValidatingAdmissionWebhook(reader(file))
		}, admission.Connect, admission.Create, admission.Delete, admission.Update)}, checkWebhooks(file)
}

// NewMutatingPolicy returns the plug-in with its configuration (MutatingAdmissionPolicyConfiguration; nil for none).
// What is deleted can't be changed, so deletions pass it by.
func NewMutatingPolicy(config *Config, file []byte) (Mutator, error) {
	parsed, err := policyconfig.LoadMutatingConfig(reader(file))
	if err == nil {
		err = checkManifests("policy", parsed.StaticManifestsDir)
	}
	return Mutator{newLazy(config, "mutatingadmissionpolicybindings", beyondPolicies,
		func(parts) (admission.Interface, error) {
			made, err := mutatingpolicy.NewPlugin(reader(file))
			if err != nil {
				return nil, err
			}
			made.SetExcludedAdmissionResources(reviews)
			return made, nil
		}, admission.Connect, admission.Create, admission.Update)}, err
}

// NewValidatingPolicy returns the plug-in with its configuration (ValidatingAdmissionPolicyConfiguration; nil for
// none).
func NewValidatingPolicy(config *Config, file []byte) (Validator, error) {
	parsed, err := policyconfig.LoadValidatingConfig(reader(file))
	if err == nil {
		err = checkManifests("policy", parsed.StaticManifestsDir)
	}
	return Validator{newLazy(config, "validatingadmissionpolicybindings", beyondPolicies,
		func(parts) (admission.Interface, error) {
			made, err := validatingpolicy.NewPlugin(reader(file))
			if err != nil {
				return nil, err
			}
			made.SetExcludedAdmissionResources(reviews)
			return made, nil
		}, admission.Connect, admission.Create, admission.Delete, admission.Update)}, err
}

// reviews are no objects, and a policy that refused them would lock all users out.
var reviews = []schema.GroupResource{
	{Group: "authentication.k8s.io", Resource: "selfsubjectreviews"},
	{Group: "authentication.k8s.io", Resource: "tokenreviews"},
	{Group: "authorization.k8s.io", Resource: "localsubjectaccessreviews"},
	{Group: "authorization.k8s.io", Resource: "selfsubjectaccessreviews"},
	{Group: "authorization.k8s.io", Resource: "selfsubjectrulesreviews"},
	{Group: "authorization.k8s.io", Resource: "subjectaccessreviews"},
}

// beyondPolicies tells whether policies don't see a request: they see the configurations of webhooks, but not of
// policies, which could not be repaired otherwise.
func beyondPolicies(a admission.Attributes) bool {
	resource := a.GetResource().GroupResource()
	return slices.Contains(policies, resource) || slices.Contains(reviews, resource)
}

var policies = []schema.GroupResource{
	admissionregistrationv1.Resource("validatingadmissionpolicies"),
	admissionregistrationv1.Resource("validatingadmissionpolicybindings"),
	admissionregistrationv1.Resource("mutatingadmissionpolicies"),
	admissionregistrationv1.Resource("mutatingadmissionpolicybindings"),
}

// reader is nil for a plug-in without a configuration file.
func reader(file []byte) io.Reader {
	if file == nil {
		return nil
	}
	return bytes.NewReader(file)
}

// checkWebhooks finds at start what else would be found with the first webhook.
func checkWebhooks(file []byte) error {
	config, err := webhookconfig.LoadConfig(reader(file))
	if err != nil {
		return err
	}
	if _, err := webhook.NewDefaultAuthenticationInfoResolver(config.KubeConfigFile); err != nil {
		return err
	}
	return checkManifests("webhook", config.StaticManifestsDir)
}

func checkManifests(what, dir string) error {
	if dir == "" {
		return nil
	}
	return fmt.Errorf("static %s manifests dir %q configured but %s feature gate is not enabled", what, dir,
		features.ManifestBasedAdmissionControlConfig)
}
