package authz

import (
	"fmt"
	"time"

	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	authorizationcel "k8s.io/apiserver/pkg/authorization/cel"
	"k8s.io/apiserver/pkg/authorization/metrics"
	"k8s.io/apiserver/pkg/authorization/union"
	webhookutil "k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/apiserver/plugin/pkg/authorizer/webhook"
	webhookmetrics "k8s.io/apiserver/plugin/pkg/authorizer/webhook/metrics"
)

// generation is what was made of one configuration.
type generation struct {
	authorizer.Authorizer
	authorizer.RuleResolver
}

// build makes the authorizers of a valid configuration, in its order.
func (c *Chain) build(config *apiserver.AuthorizationConfiguration) (*generation, error) {
	authorizers := []authorizer.Authorizer{authorizerfactory.NewPrivilegedGroups(user.SystemPrivilegedGroup)}
	var resolvers []authorizer.RuleResolver
	compiler := compilerFor(config)
	for i := range config.Authorizers {
		a := &config.Authorizers[i]
		made, err := c.authorizer(a, compiler)
		if err != nil {
			return nil, err
		}
		authorizers = append(authorizers, metrics.InstrumentedAuthorizer(string(a.Type), a.Name, made))
		resolvers = append(resolvers, made)
	}
	return &generation{union.New(authorizers...), union.NewRuleResolvers(resolvers...)}, nil
}

// decider answers requests, and lists the permissions of a user.
type decider interface {
	authorizer.Authorizer
	authorizer.RuleResolver
}

func (c *Chain) authorizer(a *apiserver.AuthorizerConfiguration, compiler authorizationcel.Compiler) (decider, error) {
	switch a.Type {
	case ModeNode:
		return c.node, nil
	case ModeABAC:
		return c.abac, nil
	case ModeRBAC:
		return c.rbac, nil
	case ModeAlwaysAllow:
		return authorizerfactory.NewAlwaysAllowAuthorizer(), nil
	case ModeAlwaysDeny:
		return authorizerfactory.NewAlwaysDenyAuthorizer(), nil
	case ModeWebhook:
		return c.remote(a, compiler)
	}
	return nil, fmt.Errorf("authorizers of type %q are not supported", a.Type)
}

// webhookMetrics are those of upstream's server, which counts evaluations but no requests.
type webhookMetrics struct {
	webhookmetrics.NoopRequestMetrics
	webhookmetrics.WebhookMetrics
	authorizationcel.MatcherMetrics
}

// remote makes an authorizer that asks a webhook.
func (c *Chain) remote(a *apiserver.AuthorizerConfiguration, compiler authorizationcel.Compiler) (decider, error) {
	w := a.Webhook
	config, err := webhookutil.LoadKubeconfig(*w.ConnectionInfo.KubeConfigFile, nil)
	if err != nil {
		return nil, fmt.Errorf("webhook %s: %s: %w", a.Name, *w.ConnectionInfo.KubeConfigFile, err)
	}
	config.Timeout, config.Dial = w.Timeout.Duration, c.dial
	decisionOnError := authorizer.DecisionNoOpinion
	if w.FailurePolicy == apiserver.FailurePolicyDeny {
		decisionOnError = authorizer.DecisionDeny
	}
	made, err := webhook.New(config, w.SubjectAccessReviewVersion,
		cached(w.AuthorizedTTL.Duration, w.CacheAuthorizedRequests),
		cached(w.UnauthorizedTTL.Duration, w.CacheUnauthorizedRequests),
		*webhook.DefaultRetryBackoff(), decisionOnError, w.MatchConditions, a.Name,
		webhookMetrics{WebhookMetrics: webhookmetrics.NewWebhookMetrics(),
			MatcherMetrics: authorizationcel.NewMatcherMetrics()}, compiler)
	if err != nil {
		return nil, fmt.Errorf("webhook %s: %w", a.Name, err)
	}
	return made, nil
}

func cached(ttl time.Duration, wanted bool) time.Duration {
	if !wanted {
		return 0
	}
	return ttl
}
