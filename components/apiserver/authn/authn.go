// Package authn finds out who sends a request: an ordered chain of authenticators
// (https://kubernetes.io/docs/reference/access-authn-authz/authentication/).
package authn

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authentication/request/websocket"
	"k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/authentication/token/tokenfile"
	tokenunion "k8s.io/apiserver/pkg/authentication/token/union"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/apiserver/objects"
)

// Config is what a Chain is made of. Empty fields leave their authenticator out.
type Config struct {
	// ClientCAFile holds the certificates of those who may sign client certificates; it is read again when it changes.
	ClientCAFile string
	// RequestHeader trusts a proxy that says who its user is.
	RequestHeader RequestHeader
	// TokenFile is a CSV file: token, user, uid, "group1,group2".
	TokenFile string
	// ServiceAccounts authenticates service account tokens.
	ServiceAccounts authenticator.Token
	// BootstrapTokens authenticates tokens kept as Secrets in kube-system; Objects is then needed.
	BootstrapTokens bool
	Objects         objects.Reader
	// Anonymous lets requests without credentials through as system:anonymous.
	Anonymous bool
	// Audiences are what this API server calls itself (--api-audiences).
	Audiences []string
	Clock     clock.WithTicker
}

// Chain authenticates requests. It is safe for concurrent use.
type Chain struct {
	authenticator.Request
	audiences     authenticator.Audiences
	clientCA      *caFile
	requestHeader *caFile
	clock         clock.WithTicker
}

// New builds the chain; files that can't be read are an error. The order: request header, client certificate, bearer
// token (file, service account, bootstrap), and last, when nothing failed, anonymous.
func New(cfg Config) (*Chain, error) {
	c := &Chain{audiences: cfg.Audiences, clock: cfg.Clock}
	if c.clock == nil {
		c.clock = clock.RealClock{}
	}
	var requests []authenticator.Request
	if cfg.RequestHeader.ClientCAFile != "" {
		ca, err := newCAFile(cfg.RequestHeader.ClientCAFile, c.clock)
		if err != nil {
			return nil, fmt.Errorf("requestheader-client-ca-file: %w", err)
		}
		c.requestHeader = ca
		requests = append(requests, x509.NewDynamicCAVerifier(ca.verifyOptions, &cfg.RequestHeader, allowedNames(cfg.RequestHeader.AllowedNames)))
	}
	if cfg.ClientCAFile != "" {
		ca, err := newCAFile(cfg.ClientCAFile, c.clock)
		if err != nil {
			return nil, fmt.Errorf("client-ca-file: %w", err)
		}
		c.clientCA = ca
		requests = append(requests, newRemembered(ca.verifyOptions, c.clock))
	}
	tokens, err := tokenAuthenticators(&cfg, c.clock)
	if err != nil {
		return nil, err
	}
	if len(tokens) > 0 {
		token := tokenunion.New(tokens...)
		requests = append(requests, bearertoken.New(token), websocket.NewProtocolAuthenticator(token))
	}
	var all []authenticator.Request
	if len(requests) > 0 {
		all = append(all, group.NewAuthenticatedGroupAdder(union.New(requests...)))
	}
	if cfg.Anonymous {
		all = append(all, anonymous.NewAuthenticator(nil))
	}
	c.Request = union.NewFailOnError(all...) // bad credentials are not taken for none
	return c, nil
}

func tokenAuthenticators(cfg *Config, clk clock.Clock) ([]authenticator.Token, error) {
	var tokens []authenticator.Token
	if cfg.TokenFile != "" {
		file, err := tokenfile.NewCSV(cfg.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("token-auth-file: %w", err)
		}
		tokens = append(tokens, authenticator.WrapAudienceAgnosticToken(cfg.Audiences, file))
	}
	if cfg.ServiceAccounts != nil {
		tokens = append(tokens, cfg.ServiceAccounts)
	}
	if cfg.BootstrapTokens {
		tokens = append(tokens, authenticator.WrapAudienceAgnosticToken(cfg.Audiences, &bootstrapTokens{objects: cfg.Objects, clock: clk}))
	}
	return tokens, nil
}

// AuthenticateRequest implements authenticator.Request for this server's own audiences.
func (c *Chain) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	if len(c.audiences) > 0 {
		r = r.WithContext(authenticator.WithAudiences(r.Context(), c.audiences))
	}
	response, ok, err := c.Request.AuthenticateRequest(r)
	if err != nil || !ok {
		return nil, false, err
	}
	if len(c.audiences) > 0 && len(response.Audiences) > 0 && len(c.audiences.Intersect(response.Audiences)) == 0 {
		return nil, false, fmt.Errorf("unable to match the audience: %v, accepted: %v", response.Audiences, c.audiences)
	}
	return response, true, nil
}

// AuthenticateToken says who a bearer token belongs to, for a TokenReview. audiences are those of whom it was given to;
// empty means this server's.
func (c *Chain) AuthenticateToken(ctx context.Context, token string, audiences []string) (*authenticator.Response, bool, error) {
	if len(audiences) == 0 {
		audiences = c.audiences
	}
	if len(audiences) > 0 {
		ctx = authenticator.WithAudiences(ctx, audiences)
	}
	r := (&http.Request{Header: http.Header{"Authorization": {"Bearer " + token}}}).WithContext(ctx)
	return c.Request.AuthenticateRequest(r)
}

// Audiences returns what this server calls itself.
func (c *Chain) Audiences() []string { return c.audiences }

// ClientCA and RequestHeaderCA return the PEM bundles now in use, for the ConfigMap that extension servers read; nil when
// there is none.
func (c *Chain) ClientCA() []byte        { return c.clientCA.bundle() }
func (c *Chain) RequestHeaderCA() []byte { return c.requestHeader.bundle() }

// reloadEvery is how often files are looked at again.
const reloadEvery = 10 * time.Second

// Run reads changed files again until ctx ends.
func (c *Chain) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, ca := range []*caFile{c.clientCA, c.requestHeader} {
		if ca != nil {
			group.Go(func() error { return ca.run(ctx) })
		}
	}
	return group.Wait()
}
