package apiserver

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"

	"quintet.dev/quintet/components/apiserver/authn"
	"quintet.dev/quintet/components/apiserver/gates"
	"quintet.dev/quintet/components/apiserver/metrics"
	"quintet.dev/quintet/components/apiserver/options"
	"quintet.dev/quintet/components/apiserver/tokens"
	"quintet.dev/quintet/internal/follow"
)

// makeTokens makes what signs and verifies service account tokens. Its keys follow their files, or those of an external signer.
func (s *Server) makeTokens() (err error) {
	c := &s.config
	config := tokens.Config{
		Issuers: c.ServiceAccountIssuers, Audiences: c.APIAudiences,
		MaxExpiration: c.ServiceAccountMaxTokenExpiration, ExtendExpiration: !c.NoTokenExtension, NoLookup: c.NoTokenLookup,
		AnyUID:  !s.gates.On(gates.TokenRequestServiceAccountUIDValidation),
		JWKSURI: s.jwksURI(), Objects: s.local, Clock: c.Clock,
		Used: metrics.Counters(s.registry, "serviceaccount_", "Uses of tokens of service accounts.", tokens.Uses()),
	}
	if c.ServiceAccountSigningEndpoint != "" {
		return s.makeRemoteTokens(config)
	}
	paths := c.ServiceAccountKeyFiles
	if c.ServiceAccountSigningKey != "" {
		paths = append([]string{c.ServiceAccountSigningKey}, paths...)
	} else if c.Storage == options.StorageMemory {
		// Nobody but this process will ever see the accounts, so its tokens may die with it, too.
		if config.Signer, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			return err
		}
	}
	own := config.Signer
	s.keyFiles, err = follow.New(func(context.Context, [][]byte) error {
		config.Signer = own
		if c.ServiceAccountSigningKey != "" {
			if config.Signer, err = tokens.LoadSigner(c.ServiceAccountSigningKey); err != nil {
				return err
			}
		}
		if config.Keys, err = tokens.LoadKeys(c.ServiceAccountKeyFiles...); err != nil {
			return err
		}
		if s.tokens != nil {
			return s.tokens.SetKeys(config.Signer, config.Keys)
		}
		s.tokens, err = tokens.New(config)
		return err
	}, paths...)
	if err != nil {
		return fmt.Errorf("--service-account-signing-key-file, --service-account-key-file: %w", err)
	}
	return nil
}

// makeAuthentication makes what finds out who sends a request.
func (s *Server) makeAuthentication() (err error) {
	c := &s.config
	if len(c.RequestHeader.UIDHeaders) > 0 && !s.gates.On(gates.RemoteRequestHeaderUID) {
		return fmt.Errorf("--requestheader-uid-headers requires the %q feature to be enabled", gates.RemoteRequestHeaderUID)
	}
	s.authn, err = authn.New(authn.Config{
		ClientCAFile: c.ClientCAFile, NoCertificateUIDs: !s.gates.On(gates.AllowParsingUserUIDFromCertAuth), Certificates: metrics.Certificates(s.registry),
		RequestHeader: c.RequestHeader, TokenFile: c.TokenAuthFile,
		ServiceAccounts: s.tokens, ServiceAccountIssuers: c.ServiceAccountIssuers,
		BootstrapTokens: c.BootstrapTokenAuth, Objects: s.local,
		OIDC: c.OIDC, OIDCGiven: c.OIDCGiven, ConfigFile: c.AuthenticationConfigFile, Webhook: c.TokenWebhook,
		Dial: s.egress.ControlPlane(), Egress: s.egress.Lookup(),
		Anonymous: !c.NoAnonymousAuth, AnonymousGiven: c.AnonymousGiven,
		Audiences: s.tokens.Audiences(), Identity: s.id(), Clock: c.Clock,
	})
	return err
}
