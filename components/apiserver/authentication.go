package apiserver

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"

	"quintet.dev/quintet/components/apiserver/authn"
	"quintet.dev/quintet/components/apiserver/gates"
	"quintet.dev/quintet/components/apiserver/metrics"
	"quintet.dev/quintet/components/apiserver/tokens"
	"quintet.dev/quintet/internal/follow"
)

func (c *Config) addAuthenticationFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.ClientCAFile, "client-ca-file", "", "Authorities of client certificates; the common name is the user, the organizations are the groups.")
	fs.StringVar(&c.TokenAuthFile, "token-auth-file", "", "CSV of bearer tokens: token,user,uid,\"group1,group2\".")
	fs.Var(&anonymousFlag{c}, "anonymous-auth", "Serve requests without credentials as system:anonymous.")
	fs.Lookup("anonymous-auth").NoOptDefVal = "true"
	fs.BoolVar(&c.BootstrapTokenAuth, "enable-bootstrap-token-auth", false, "Let Secrets of type bootstrap.kubernetes.io/token in kube-system authenticate.")
	fs.StringSliceVar(&c.APIAudiences, "api-audiences", nil, "What tokens must be meant for to be accepted here; by default the issuer.")
	fs.StringVar(&c.AuthenticationConfigFile, "authentication-config", "", "AuthenticationConfiguration: issuers of JSON Web Tokens, and who is anonymous. Excludes --oidc-*.")
	w := &c.TokenWebhook
	fs.StringVar(&w.ConfigFile, "authentication-token-webhook-config-file", "", "Kubeconfig of a remote service that is asked about bearer tokens.")
	fs.StringVar(&w.Version, "authentication-token-webhook-version", "v1beta1", "Version of the TokenReviews that it is sent.")
	fs.DurationVar(&w.CacheTTL, "authentication-token-webhook-cache-ttl", 2*time.Minute, "How long its answers are remembered.")
	r := &c.RequestHeader
	fs.StringVar(&r.ClientCAFile, "requestheader-client-ca-file", "", "Authorities of proxies that say in headers who their user is.")
	fs.StringSliceVar(&r.AllowedNames, "requestheader-allowed-names", nil, "Common names of such proxies; empty allows all that the authority signed.")
	fs.StringSliceVar(&r.UsernameHeaders, "requestheader-username-headers", nil, "Headers with the user's name.")
	fs.StringSliceVar(&r.UIDHeaders, "requestheader-uid-headers", nil, "Headers with the user's UID, X-Remote-Uid among them; not without the feature RemoteRequestHeaderUID.")
	fs.StringSliceVar(&r.GroupHeaders, "requestheader-group-headers", nil, "Headers with the user's groups.")
	fs.StringSliceVar(&r.ExtraHeaderPrefixes, "requestheader-extra-headers-prefix", nil, "Prefixes of headers with more about the user.")
	c.addOIDCFlags(fs)
	c.addServiceAccountFlags(fs)
}

func (c *Config) addOIDCFlags(fs *pflag.FlagSet) {
	o := &c.OIDC
	fs.StringVar(&o.IssuerURL, "oidc-issuer-url", "", "Issuer of OpenID Connect tokens; https only.")
	fs.StringVar(&o.ClientID, "oidc-client-id", "", "What the tokens must be meant for.")
	fs.StringVar(&o.CAFile, "oidc-ca-file", "", "Authorities of the issuer's certificate; by default the host's.")
	fs.StringVar(&o.UsernameClaim, "oidc-username-claim", "sub", "Claim with the user's name.")
	fs.StringVar(&o.UsernamePrefix, "oidc-username-prefix", "", "What is put before it; by default the issuer, unless the claim is email. \"-\" puts nothing.")
	fs.StringVar(&o.GroupsClaim, "oidc-groups-claim", "", "Claim with the user's groups: a string or a list.")
	fs.StringVar(&o.GroupsPrefix, "oidc-groups-prefix", "", "What is put before each of them.")
	fs.StringSliceVar(&o.SigningAlgs, "oidc-signing-algs", []string{"RS256"}, "Algorithms by which tokens may be signed: RS256, RS384, RS512, ES256, ES384, ES512, PS256, PS384, PS512.")
	fs.Var(cliflag.NewMapStringStringNoSplit(&o.RequiredClaims), "oidc-required-claim", "A claim that tokens must have, as key=value; may be given several times.")
	noteGiven(fs, "oidc-", &c.oidcGiven)
}

// noteGiven sets given when a flag whose name begins with prefix is, be it with its default.
func noteGiven(fs *pflag.FlagSet, prefix string, given *bool) {
	fs.VisitAll(func(f *pflag.Flag) {
		if strings.HasPrefix(f.Name, prefix) {
			f.Value = cliflag.NewTracker(f.Value, given)
		}
	})
}

func (c *Config) addServiceAccountFlags(fs *pflag.FlagSet) {
	fs.StringArrayVar(&c.ServiceAccountIssuers, "service-account-issuer", nil, "Issuer of service account tokens; may be given several times: the first signs, all are accepted.")
	fs.StringArrayVar(&c.ServiceAccountKeyFiles, "service-account-key-file", nil, "Keys that verify service account tokens; may be given several times.")
	fs.StringVar(&c.ServiceAccountSigningKey, "service-account-signing-key-file", "", "Private key that signs service account tokens.")
	fs.StringVar(&c.ServiceAccountSigningEndpoint, "service-account-signing-endpoint", "", "Unix socket of a process that signs service account tokens; excludes --service-account-signing-key-file and --service-account-key-file.")
	fs.StringVar(&c.ServiceAccountJWKSURI, "service-account-jwks-uri", "", "Where the keys of tokens can be read; by default at this server.")
	fs.DurationVar(&c.ServiceAccountMaxTokenExpiration, "service-account-max-token-expiration", 0, "Longest life of a service account token; 0 means no bound.")
	fs.Var((*not)(&c.NoTokenExtension), "service-account-extend-token-expiration", "Let tokens that pods get by default live for a year.")
	fs.Lookup("service-account-extend-token-expiration").NoOptDefVal = "true"
	fs.Var((*not)(&c.NoTokenLookup), "service-account-lookup", "Refuse tokens in Secrets that are not there any more.")
	fs.Lookup("service-account-lookup").NoOptDefVal = "true"
}

// checkServiceAccounts names what can't be, as upstream does.
func (c *Config) checkServiceAccounts() error {
	for i, issuer := range c.ServiceAccountIssuers {
		_, err := url.Parse(issuer)
		switch {
		case issuer == "":
			return errors.New("--service-account-issuer should not be an empty string")
		case strings.Contains(issuer, ":") && err != nil:
			return fmt.Errorf("--service-account-issuer %q contained a ':' but was not a valid URL: %w", issuer, err)
		case slices.Contains(c.ServiceAccountIssuers[:i], issuer):
			return fmt.Errorf("--service-account-issuer %q is already specified", issuer)
		}
	}
	if err := c.checkSigningEndpoint(); err != nil {
		return err
	}
	if uri := c.ServiceAccountJWKSURI; uri != "" {
		u, err := url.Parse(uri)
		if err != nil {
			return fmt.Errorf("--service-account-jwks-uri must be a valid URL: %w", err)
		}
		if u.Scheme != "https" {
			return fmt.Errorf("--service-account-jwks-uri requires https scheme, parsed as: %v", u)
		}
	}
	if longest := c.ServiceAccountMaxTokenExpiration; longest != 0 && (longest < time.Hour || longest > (1<<32)*time.Second) {
		return errors.New("--service-account-max-token-expiration must be between 1 hour and 2^32 seconds")
	}
	return nil
}

// anonymousFlag notes that the flag was given, as an AuthenticationConfiguration then may not say otherwise.
type anonymousFlag struct{ config *Config }

func (f *anonymousFlag) String() string {
	return strconv.FormatBool(f.config == nil || !f.config.NoAnonymousAuth)
}
func (f *anonymousFlag) Type() string { return "bool" }
func (f *anonymousFlag) Set(s string) error {
	v, err := strconv.ParseBool(s)
	f.config.NoAnonymousAuth, f.config.anonymousGiven = !v, true
	return err
}

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
	} else if c.Storage == StorageMemory {
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
		OIDC: c.OIDC, OIDCGiven: c.oidcGiven, ConfigFile: c.AuthenticationConfigFile, Webhook: c.TokenWebhook,
		Dial: s.egress.ControlPlane(), Egress: s.egress.Lookup(),
		Anonymous: !c.NoAnonymousAuth, AnonymousGiven: c.anonymousGiven,
		Audiences: s.tokens.Audiences(), Identity: s.id(), Clock: c.Clock,
	})
	return err
}
