package authz

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/load"
	"k8s.io/apiserver/pkg/apis/apiserver/validation"
	authorizationcel "k8s.io/apiserver/pkg/authorization/cel"
	"k8s.io/utils/ptr"
)

// Modes of --authorization-mode, and types of authorizers in an AuthorizationConfiguration.
const (
	ModeNode        = "Node"
	ModeRBAC        = "RBAC"
	ModeAlwaysAllow = "AlwaysAllow"
	ModeAlwaysDeny  = "AlwaysDeny"
	ModeABAC        = "ABAC"
	ModeWebhook     = "Webhook"
)

// Modes lists them.
func Modes() []string {
	return []string{ModeAlwaysAllow, ModeAlwaysDeny, ModeABAC, ModeNode, ModeRBAC, ModeWebhook}
}

// Webhook is a remote service that is asked for decisions, by flags
// (https://kubernetes.io/docs/reference/access-authn-authz/webhook/). Each field has the flag
// --authorization-webhook-... of its name.
type Webhook struct {
	ConfigFile string // a kubeconfig
	Version    string // of the SubjectAccessReviews sent; "v1beta1" if empty, as upstream
	// CacheAuthorizedTTL and CacheUnauthorizedTTL are for how long answers are remembered; 0 remembers none.
	CacheAuthorizedTTL   time.Duration
	CacheUnauthorizedTTL time.Duration
}

// given tells whether anything was said that upstream's flags don't say by default.
func (w *Webhook) given() bool {
	return w.ConfigFile != "" || (w.Version != "" && w.Version != DefaultWebhook().Version) ||
		(w.CacheAuthorizedTTL != 0 && w.CacheAuthorizedTTL != DefaultWebhook().CacheAuthorizedTTL) ||
		(w.CacheUnauthorizedTTL != 0 && w.CacheUnauthorizedTTL != DefaultWebhook().CacheUnauthorizedTTL)
}

// DefaultWebhook is what upstream's flags are by default.
func DefaultWebhook() Webhook {
	return Webhook{Version: "v1beta1", CacheAuthorizedTTL: 5 * time.Minute, CacheUnauthorizedTTL: 30 * time.Second}
}

// configuration is what the flags mean as an AuthorizationConfiguration.
func configuration(chosen []string, webhook *Webhook, policyFile string) (*apiserver.AuthorizationConfiguration,
	error) {
	if len(chosen) == 0 {
		return nil, errors.New("--authorization-mode: at least one authorization-mode must be passed")
	}
	config := &apiserver.AuthorizationConfiguration{}
	for i, mode := range chosen {
		switch {
		case !slices.Contains(Modes(), mode):
			return nil, fmt.Errorf("--authorization-mode: authorization-mode %q is not a valid mode; use some of %s",
				mode, strings.Join(Modes(), ", "))
		case slices.Contains(chosen[:i], mode):
			return nil, fmt.Errorf("--authorization-mode: authorization-mode %q has mode specified more than once",
				chosen)
		case mode == ModeABAC && policyFile == "":
			return nil, errors.New("--authorization-policy-file: authorization-mode ABAC's authorization policy file not passed")
		case mode == ModeWebhook && webhook.ConfigFile == "":
			return nil,
				errors.New("--authorization-webhook-config-file: authorization-mode Webhook's authorization config file not passed")
		}
		a := apiserver.AuthorizerConfiguration{Type: apiserver.AuthorizerType(mode), Name: nameOf(mode)}
		if mode == ModeWebhook {
			a.Name, a.Webhook = "default", webhook.configuration()
		}
		config.Authorizers = append(config.Authorizers, a)
	}
	if policyFile != "" && !slices.Contains(chosen, ModeABAC) {
		return nil, errors.New("cannot specify --authorization-policy-file without mode ABAC")
	}
	if webhook.ConfigFile != "" && !slices.Contains(chosen, ModeWebhook) {
		return nil, errors.New("cannot specify --authorization-webhook-config-file without mode Webhook")
	}
	return config, nil
}

func (w *Webhook) configuration() *apiserver.WebhookConfiguration {
	version := w.Version
	if version == "" {
		version = DefaultWebhook().Version
	}
	return &apiserver.WebhookConfiguration{
		AuthorizedTTL: metav1.Duration{Duration: w.CacheAuthorizedTTL}, CacheAuthorizedRequests: true,
		UnauthorizedTTL: metav1.Duration{Duration: w.CacheUnauthorizedTTL}, CacheUnauthorizedRequests: true,
		Timeout:                    metav1.Duration{Duration: 30 * time.Second},
		FailurePolicy:              apiserver.FailurePolicyNoOpinion,
		SubjectAccessReviewVersion: version, MatchConditionSubjectAccessReviewVersion: "v1",
		ConnectionInfo: apiserver.WebhookConnectionInfo{
			Type: apiserver.AuthorizationWebhookConnectionInfoTypeKubeConfigFile, KubeConfigFile: ptr.To(w.ConfigFile),
		},
	}
}

// nameOf is the name that the one authorizer of a mode has, in upstream's configurations too.
func nameOf(mode string) string { return strings.ToLower(mode) }

// decodeConfig reads and checks an AuthorizationConfiguration
// (https://kubernetes.io/docs/reference/config-api/apiserver-config.v1/#apiserver-k8s-io-v1-AuthorizationConfiguration).
func decodeConfig(content []byte) (*apiserver.AuthorizationConfiguration, error) {
	config, err := load.LoadFromData(content)
	if err != nil {
		return nil, fmt.Errorf("failed to load AuthorizationConfiguration from file: %w", err)
	}
	if err := validation.ValidateAuthorizationConfiguration(compilerFor(config), nil, config, sets.New(Modes()...),
		sets.New(ModeWebhook)).ToAggregate(); err != nil {
		return nil, err
	}
	for _, a := range config.Authorizers {
		if mode := string(a.Type); mode != ModeWebhook && a.Name != nameOf(mode) {
			return nil, fmt.Errorf("expected name %s for authorizer %s instead of %s", nameOf(mode), mode, a.Name)
		}
		if a.Webhook != nil && a.Webhook.ConnectionInfo.Type == apiserver.AuthorizationWebhookConnectionInfoTypeInCluster {
			return nil, fmt.Errorf("webhook %s: connectionInfo.type %s is not allowed for kube-apiserver", a.Name,
				a.Webhook.ConnectionInfo.Type)
		}
	}
	return config, nil
}

// compilerFor is what compiles the match conditions; nil if there are none, as it is large.
func compilerFor(config *apiserver.AuthorizationConfiguration) authorizationcel.Compiler {
	for _, a := range config.Authorizers {
		if a.Webhook != nil && len(a.Webhook.MatchConditions) > 0 {
			return authorizationcel.NewDefaultCompiler()
		}
	}
	return nil
}
