package options

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
)

func (c *Config) addAuthenticationFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.ClientCAFile, "client-ca-file", "",
		"Authorities of client certificates; the common name is the user, the organizations are the groups.")
	fs.StringVar(&c.TokenAuthFile, "token-auth-file", "", "CSV of bearer tokens: token,user,uid,\"group1,group2\".")
	fs.Var(&anonymousFlag{c}, "anonymous-auth", "Serve requests without credentials as system:anonymous.")
	fs.Lookup("anonymous-auth").NoOptDefVal = "true"
	fs.BoolVar(&c.BootstrapTokenAuth, "enable-bootstrap-token-auth", false,
		"Let Secrets of type bootstrap.kubernetes.io/token in kube-system authenticate.")
	fs.StringSliceVar(&c.APIAudiences, "api-audiences", nil,
		"What tokens must be meant for to be accepted here; by default the issuer.")
	fs.StringVar(&c.AuthenticationConfigFile, "authentication-config", "",
		"AuthenticationConfiguration: issuers of JSON Web Tokens, and who is anonymous. Excludes --oidc-*.")
	w := &c.TokenWebhook
	fs.StringVar(&w.ConfigFile, "authentication-token-webhook-config-file", "",
		"Kubeconfig of a remote service that is asked about bearer tokens.")
	fs.StringVar(&w.Version, "authentication-token-webhook-version", "v1beta1",
		"Version of the TokenReviews that it is sent.")
	fs.DurationVar(&w.CacheTTL, "authentication-token-webhook-cache-ttl", 2*time.Minute,
		"How long its answers are remembered.")
	r := &c.RequestHeader
	fs.StringVar(&r.ClientCAFile, "requestheader-client-ca-file", "",
		"Authorities of proxies that name their user in headers.")
	fs.StringSliceVar(&r.AllowedNames, "requestheader-allowed-names", nil,
		"Common names of such proxies; empty allows all that the authority signed.")
	fs.StringSliceVar(&r.UsernameHeaders, "requestheader-username-headers", nil, "Headers with the user's name.")
	fs.StringSliceVar(&r.UIDHeaders, "requestheader-uid-headers", nil,
		"Headers with the user's UID, X-Remote-Uid among them; not without the feature RemoteRequestHeaderUID.")
	fs.StringSliceVar(&r.GroupHeaders, "requestheader-group-headers", nil, "Headers with the user's groups.")
	fs.StringSliceVar(&r.ExtraHeaderPrefixes, "requestheader-extra-headers-prefix", nil,
		"Prefixes of headers with more about the user.")
	c.addOIDCFlags(fs)
	c.addServiceAccountFlags(fs)
}

func (c *Config) addOIDCFlags(fs *pflag.FlagSet) {
	o := &c.OIDC
	fs.StringVar(&o.IssuerURL, "oidc-issuer-url", "", "Issuer of OpenID Connect tokens; https only.")
	fs.StringVar(&o.ClientID, "oidc-client-id", "", "What the tokens must be meant for.")
	fs.StringVar(&o.CAFile, "oidc-ca-file", "", "Authorities of the issuer's certificate; by default the host's.")
	fs.StringVar(&o.UsernameClaim, "oidc-username-claim", "sub", "Claim with the user's name.")
	fs.StringVar(&o.UsernamePrefix, "oidc-username-prefix", "",
		"What is put before it; by default the issuer, unless the claim is email. \"-\" puts nothing.")
	fs.StringVar(&o.GroupsClaim, "oidc-groups-claim", "", "Claim with the user's groups: a string or a list.")
	fs.StringVar(&o.GroupsPrefix, "oidc-groups-prefix", "", "What is put before each of them.")
	fs.StringSliceVar(&o.SigningAlgs, "oidc-signing-algs", []string{"RS256"},
		"Algorithms by which tokens may be signed: RS256, RS384, RS512, ES256, ES384, ES512, PS256, PS384, PS512.")
	fs.Var(cliflag.NewMapStringStringNoSplit(&o.RequiredClaims), "oidc-required-claim",
		"A claim that tokens must have, as key=value; may be given several times.")
	noteGiven(fs, "oidc-", &c.OIDCGiven)
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
	fs.StringArrayVar(&c.ServiceAccountIssuers, "service-account-issuer", nil,
		"Issuer of service account tokens; may be given several times: the first signs, all are accepted.")
	fs.StringArrayVar(&c.ServiceAccountKeyFiles, "service-account-key-file", nil,
		"Keys that verify service account tokens; may be given several times.")
	fs.StringVar(&c.ServiceAccountSigningKey, "service-account-signing-key-file", "",
		"Private key that signs service account tokens.")
	fs.StringVar(&c.ServiceAccountSigningEndpoint, "service-account-signing-endpoint", "",
		"Unix socket of a process that signs service account tokens; excludes --service-account-signing-key-file "+
			"and --service-account-key-file.")
	fs.StringVar(&c.ServiceAccountJWKSURI, "service-account-jwks-uri", "",
		"Where the keys of tokens can be read; by default at this server.")
	fs.DurationVar(&c.ServiceAccountMaxTokenExpiration, "service-account-max-token-expiration", 0,
		"Longest life of a service account token; 0 means no bound.")
	fs.Var((*not)(&c.NoTokenExtension), "service-account-extend-token-expiration",
		"Let tokens that pods get by default live for a year.")
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
	if longest := c.ServiceAccountMaxTokenExpiration; longest != 0 &&
		(longest < time.Hour || longest > (1<<32)*time.Second) {
		return errors.New("--service-account-max-token-expiration must be between 1 hour and 2^32 seconds")
	}
	return nil
}

var abstractSocket = regexp.MustCompile(`^@([a-zA-Z0-9_-]+\.)*[a-zA-Z0-9_-]+$`)

func (c *Config) checkSigningEndpoint() error {
	endpoint := c.ServiceAccountSigningEndpoint
	switch {
	case endpoint == "":
	case c.ServiceAccountSigningKey != "" || len(c.ServiceAccountKeyFiles) > 0:
		return errors.New("can't set `--service-account-signing-key-file` and/or " +
			"`--service-account-key-file` with `--service-account-signing-endpoint` (They are mutually exclusive)")
	case strings.HasPrefix(endpoint, "@") && !abstractSocket.MatchString(endpoint):
		return fmt.Errorf("invalid value %q passed for `--service-account-signing-endpoint`, "+
			"when prefixed with @ must be a valid abstract socket name", endpoint)
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
	f.config.NoAnonymousAuth, f.config.AnonymousGiven = !v, true
	return err
}
