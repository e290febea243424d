// Package authn authenticates requests: an ordered chain of authenticators
// (https://kubernetes.io/docs/reference/access-authn-authz/authentication/).
package authn

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/sync/errgroup"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authentication/request/websocket"
	"k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/authentication/token/tokenfile"
	tokenunion "k8s.io/apiserver/pkg/authentication/token/union"
	"k8s.io/apiserver/pkg/server/egressselector"
	"k8s.io/apiserver/pkg/server/options/authenticationconfig/metrics"
	"k8s.io/apiserver/plugin/pkg/authenticator/token/oidc"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/apiserver/egress"
	"quintet.dev/quintet/components/apiserver/objects"
	"quintet.dev/quintet/internal/follow"
)

// Config is what a Chain is made of. Empty fields leave their authenticator out. Files are read again when they change,
// but for TokenFile and those of the webhook, as with upstream.
type Config struct {
	// ClientCAFile holds the certificates of the authorities that sign client certificates.
	ClientCAFile string
	// NoCertificateUIDs leaves the UIDs of users in their certificates unread.
	NoCertificateUIDs bool
	// Certificates takes for how long each client certificate is still good, with each request; nil takes nothing.
	Certificates func(remaining time.Duration)
	// RequestHeader trusts a proxy that names its user in headers.
	RequestHeader RequestHeader
	// TokenFile is a CSV file: token, user, uid, "group1,group2".
	TokenFile string
	// ServiceAccounts authenticates service account tokens; ServiceAccountIssuers are those whose tokens it takes.
	ServiceAccounts       authenticator.Token
	ServiceAccountIssuers []string
	// BootstrapTokens authenticates tokens kept as Secrets in kube-system; Objects is then needed.
	BootstrapTokens bool
	Objects         objects.Reader
	// OIDC is one issuer of other tokens; ConfigFile, an AuthenticationConfiguration, can have several, and configure
	// anonymous access. One excludes the other. OIDCGiven tells that a flag of OIDC was given, be it with its default.
	OIDC       OIDC
	OIDCGiven  bool
	ConfigFile string
	// Webhook asks a remote service about tokens.
	Webhook TokenWebhook
	// Anonymous lets requests without credentials through as system:anonymous. AnonymousGiven tells that this was asked
	// for, and is not to be decided by ConfigFile.
	Anonymous, AnonymousGiven bool
	// Audiences are what this API server calls itself (--api-audiences).
	Audiences []string
	// Dial connects to Webhook; nil does so straight. Egress is the same for issuers that choose their way; it may be
	// nil.
	Dial   egress.Dial
	Egress egressselector.Lookup
	// Identity tells API servers apart in metrics.
	Identity string
	Clock    clock.WithTicker
}

// Chain authenticates requests. It is safe for concurrent use.
type Chain struct {
	request       authenticator.Request
	audiences     authenticator.Audiences
	clientCA      *caFile
	requestHeader *caFile
	headers       proxyHeaders
	issuers       *issuers
	clock         clock.WithTicker
	files         []*follow.Files
}

// New builds the chain; files that can't be read are an error that names flag and file. The order: request header,
// client certificate, bearer token (file, service account, bootstrap, issuers, webhook), and last, when nothing failed,
// anonymous. The chain is to be closed.
func New(cfg Config) (*Chain, error) {
	c := &Chain{audiences: cfg.Audiences, clock: cfg.Clock, headers: cfg.RequestHeader.headers()}
	if c.clock == nil {
		c.clock = clock.RealClock{}
	}
	if err := c.build(&cfg); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (c *Chain) build(cfg *Config) error {
	requests, err := c.certificates(cfg)
	if err != nil {
		return err
	}
	anonymousUsers, err := c.configured(cfg)
	if err != nil {
		return err
	}
	tokens, err := c.tokens(cfg)
	if err != nil {
		return err
	}
	if len(tokens) > 0 {
		token := c.forUs(tokenunion.New(tokens...))
		requests = append(requests, bearertoken.New(token), websocket.NewProtocolAuthenticator(token))
	}
	var all []authenticator.Request
	if len(requests) > 0 {
		all = append(all, group.NewAuthenticatedGroupAdder(union.New(requests...)))
	}
	if anonymousUsers.Enabled {
		all = append(all, anonymous.NewAuthenticator(anonymousUsers.Conditions))
	}
	c.request = union.NewFailOnError(all...) // bad credentials are not taken for none
	return nil
}

// certificates are the authenticators of client certificates: those of proxies and of clients.
func (c *Chain) certificates(cfg *Config) (requests []authenticator.Request, err error) {
	if err := cfg.RequestHeader.check(); err != nil {
		return nil, err
	}
	if cfg.RequestHeader.ClientCAFile != "" {
		if c.requestHeader, err = newCAFile(cfg.RequestHeader.ClientCAFile); err != nil {
			return nil, fmt.Errorf("--requestheader-client-ca-file: %w", err)
		}
		c.files = append(c.files, c.requestHeader.files)
		requests = append(requests, cfg.RequestHeader.authenticator(c.requestHeader))
	}
	if cfg.ClientCAFile != "" {
		if c.clientCA, err = newCAFile(cfg.ClientCAFile); err != nil {
			return nil, fmt.Errorf("--client-ca-file: %w", err)
		}
		c.files = append(c.files, c.clientCA.files)
		owner := x509.CommonNameUserConversion
		if cfg.NoCertificateUIDs {
			owner = ownerWithoutUID
		}
		clients := newRemembered(c.clientCA.verifyOptions, owner, c.clock)
		clients.shown = cfg.Certificates
		requests = append(requests, clients)
	}
	if c.requestHeader != nil && c.clientCA != nil && len(cfg.RequestHeader.AllowedNames) == 0 &&
		c.clientCA.overlaps(c.requestHeader) {
		return nil, errOverlap
	}
	return requests, nil
}

// configured makes what an AuthenticationConfiguration says, or the flags that stand for one. It returns who is
// anonymous.
func (c *Chain) configured(cfg *Config) (apiserver.AnonymousAuthConfig, error) {
	anonymousUsers := apiserver.AnonymousAuthConfig{Enabled: cfg.Anonymous}
	byFlags := cfg.OIDCGiven || cfg.OIDC.given()
	if cfg.ConfigFile == "" && !byFlags {
		return anonymousUsers, nil
	}
	c.issuers = &issuers{accounts: cfg.ServiceAccountIssuers, algorithms: cfg.OIDC.SigningAlgs,
		audiences: cfg.Audiences, identity: cfg.Identity, egress: cfg.Egress, clock: c.clock}
	if cfg.ConfigFile == "" {
		config, err := cfg.OIDC.configuration()
		if err != nil {
			return anonymousUsers, err
		}
		if err := c.issuers.begin(config); err != nil {
			return anonymousUsers, fmt.Errorf("--oidc-*: %w", err)
		}
		return anonymousUsers, nil
	}
	if byFlags {
		return anonymousUsers, errors.New(
			"--authentication-config: authentication-config file and oidc-* flags are mutually exclusive")
	}
	c.issuers.algorithms = oidc.AllValidSigningAlgorithms()
	metrics.RegisterMetrics()
	files, err := follow.New(func(ctx context.Context, contents [][]byte) error {
		config, err := decodeConfig(contents[0])
		if err != nil {
			return follow.Permanent(err)
		}
		if config.Anonymous != nil && cfg.AnonymousGiven {
			return follow.Permanent(errors.New(
				"anonymous: Forbidden: --anonymous-auth flag cannot be set when anonymous field is configured in authentication " +
					"configuration file"))
		}
		if c.issuers.running() {
			err := c.issuers.replace(ctx, config)
			if err == nil {
				metrics.RecordAuthenticationConfigAutomaticReloadSuccess(cfg.Identity, string(contents[0]))
			}
			return err
		}
		metrics.RecordAuthenticationConfigLastConfigInfo(cfg.Identity, string(contents[0]))
		if config.Anonymous != nil {
			anonymousUsers = *config.Anonymous
		}
		return c.issuers.begin(config)
	}, cfg.ConfigFile)
	if err != nil {
		return anonymousUsers, fmt.Errorf("--authentication-config %s: %w", cfg.ConfigFile, err)
	}
	files.Failed = func() { metrics.RecordAuthenticationConfigAutomaticReloadFailure(cfg.Identity) }
	c.files = append(c.files, files)
	return anonymousUsers, nil
}

// tokens are the authenticators of bearer tokens.
func (c *Chain) tokens(cfg *Config) ([]authenticator.Token, error) {
	var tokens []authenticator.Token
	if cfg.TokenFile != "" {
		file, err := tokenfile.NewCSV(cfg.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("--token-auth-file %s: %w", cfg.TokenFile, err)
		}
		tokens = append(tokens, authenticator.WrapAudienceAgnosticToken(cfg.Audiences, file))
	}
	if cfg.ServiceAccounts != nil {
		tokens = append(tokens, cfg.ServiceAccounts)
	}
	if cfg.BootstrapTokens {
		tokens = append(tokens, authenticator.WrapAudienceAgnosticToken(cfg.Audiences,
			&bootstrapTokens{objects: cfg.Objects, clock: c.clock}))
	}
	if c.issuers != nil {
		tokens = append(tokens, c.issuers)
	}
	if cfg.Webhook.ConfigFile != "" {
		remote, err := cfg.Webhook.authenticator(cfg.Audiences, cfg.Dial)
		if err != nil {
			return nil, err
		}
		tokens = append(tokens, remote)
	}
	return tokens, nil
}

// AuthenticateRequest implements authenticator.Request for this server's own audiences. It takes the credentials out of
// a request that it authenticates.
func (c *Chain) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	response, ok, err := c.request.AuthenticateRequest(r)
	if err != nil || !ok {
		return nil, false, err
	}
	if len(c.audiences) > 0 && len(response.Audiences) > 0 && len(c.audiences.Intersect(response.Audiences)) == 0 {
		return nil, false, fmt.Errorf("unable to match the audience: %v, accepted: %v", response.Audiences, c.audiences)
	}
	r.Header.Del("Authorization")
	c.headers.clear(r.Header)
	return response, true, nil
}

// forUs takes tokens for this server's own audiences, unless others are asked for.
func (c *Chain) forUs(token authenticator.Token) authenticator.Token {
	if len(c.audiences) == 0 {
		return token
	}
	return authenticator.TokenFunc(func(ctx context.Context, text string) (*authenticator.Response, bool, error) {
		if _, given := authenticator.AudiencesFrom(ctx); !given {
			ctx = authenticator.WithAudiences(ctx, c.audiences)
		}
		return token.AuthenticateToken(ctx, text)
	})
}

// AuthenticateToken returns the user of a bearer token, for a TokenReview. audiences are those the token must be meant
// for; empty means this server's.
func (c *Chain) AuthenticateToken(ctx context.Context, token string, audiences []string) (*authenticator.Response, bool,
	error) {
	if len(audiences) == 0 {
		audiences = c.audiences
	}
	ctx = detached{ctx}
	if len(audiences) > 0 {
		ctx = authenticator.WithAudiences(ctx, audiences)
	}
	// The URL is for anonymous users, which may be allowed on some paths only.
	r := (&http.Request{URL: &url.URL{}, Header: http.Header{"Authorization": {"Bearer " + token}}}).WithContext(ctx)
	response, ok, err := c.request.AuthenticateRequest(r)
	if err != nil {
		// Upstream asks a token authenticator of its own before all others; reviews tell what both said.
		err = utilerrors.NewAggregate([]error{errors.New("invalid bearer token"), err})
	}
	return response, ok, err
}

// detached ends when its context does, but carries no values: what is found out about the token of a TokenReview is
// neither warned of in the review's answer nor noted in its audit event.
type detached struct{ context.Context }

// Value implements context.Context.
func (detached) Value(any) any { return nil }

// Audiences returns what this server calls itself.
func (c *Chain) Audiences() []string { return c.audiences }

// ClientCA and RequestHeaderCA return the PEM bundles now in use, for the ConfigMap that extension servers read; nil
// when there is none.
func (c *Chain) ClientCA() []byte        { return c.clientCA.bundle() }
func (c *Chain) RequestHeaderCA() []byte { return c.requestHeader.bundle() }

// Run reads changed files again until ctx ends.
func (c *Chain) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, f := range c.files {
		group.Go(func() error { return f.Run(ctx, c.clock) })
	}
	return group.Wait()
}

// Close ends what New started. It may be called more than once, and of nil.
func (c *Chain) Close() {
	if c != nil && c.issuers != nil {
		c.issuers.close()
	}
}
