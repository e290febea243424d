package apiserver

import (
	"fmt"

	"quintet.dev/quintet/components/apiserver/authn"
	"quintet.dev/quintet/components/apiserver/authz"
	"quintet.dev/quintet/components/apiserver/bootstrap/policy"
	"quintet.dev/quintet/components/apiserver/gates"
	"quintet.dev/quintet/components/apiserver/metrics"
)

// access is who sends a request, and what they may do.
type access struct {
	tokens *accountTokens
	authn  *authn.Chain
	authz  *authz.Chain
}

func newAccess(b *base, r *kindRegistry, undo *cleanup) (access, error) {
	authorization, err := newAuthorization(b, r)
	if err != nil {
		return access{}, err
	}
	tokens, err := newTokens(b, r, undo)
	if err != nil {
		return access{}, err
	}
	authentication, err := newAuthentication(b, r, tokens)
	if err != nil {
		return access{}, err
	}
	undo.add(authentication.Close)
	return access{tokens: tokens, authn: authentication, authz: authorization}, nil
}

// newAuthorization makes what decides what a user may do.
func newAuthorization(b *base, r *kindRegistry) (*authz.Chain, error) {
	c := &b.config
	return authz.New(authz.Config{
		Modes: c.AuthorizationModes, Webhook: c.AuthorizationWebhook, WebhookGiven: c.AuthorizationWebhookGiven,
		ConfigFile: c.AuthorizationConfigFile,
		PolicyFile: c.AuthorizationPolicyFile,
		Dial:       b.egress.ControlPlane(),
		Graph:      metrics.Graph(b.registry),
		Objects:    r.Local, NodeRules: policy.NodeRules(policyFeatures(b)), Clock: c.Clock, Identity: b.id,
	})
}

// policyFeatures are those that bring roles.
func policyFeatures(b *base) policy.Features {
	return policy.Features{
		StorageMigration: b.gates.On(gates.StorageVersionMigrator), TrustBundles: b.gates.On(gates.ClusterTrustBundle),
		PodCertificates:  b.gates.On(gates.PodCertificateRequest),
		DeviceTaintRules: b.gates.On(gates.DRADeviceTaintRules),
		NoFlagz:          !b.gates.On(gates.ComponentFlagz), NoStatusz: !b.gates.On(gates.ComponentStatusz),
	}
}

// newAuthentication makes what finds out which user sends a request.
func newAuthentication(b *base, r *kindRegistry, t *accountTokens) (*authn.Chain, error) {
	c := &b.config
	if len(c.RequestHeader.UIDHeaders) > 0 && !b.gates.On(gates.RemoteRequestHeaderUID) {
		return nil, fmt.Errorf("--requestheader-uid-headers requires the %q feature to be enabled",
			gates.RemoteRequestHeaderUID)
	}
	return authn.New(authn.Config{
		ClientCAFile: c.ClientCAFile, NoCertificateUIDs: !b.gates.On(gates.AllowParsingUserUIDFromCertAuth),
		Certificates:  metrics.Certificates(b.registry),
		RequestHeader: c.RequestHeader, TokenFile: c.TokenAuthFile,
		ServiceAccounts: t.Tokens, ServiceAccountIssuers: c.ServiceAccountIssuers,
		BootstrapTokens: c.BootstrapTokenAuth, Objects: r.Local,
		OIDC: c.OIDC, OIDCGiven: c.OIDCGiven, ConfigFile: c.AuthenticationConfigFile, Webhook: c.TokenWebhook,
		Dial: b.egress.ControlPlane(), Egress: b.egress.Lookup(),
		Anonymous: !c.NoAnonymousAuth, AnonymousGiven: c.AnonymousGiven,
		Audiences: t.Audiences(), Identity: b.id, Clock: c.Clock,
	})
}
