package authn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	authenticationcel "k8s.io/apiserver/pkg/authentication/cel"
	"k8s.io/apiserver/pkg/authentication/token/cache"
	tokenunion "k8s.io/apiserver/pkg/authentication/token/union"
	"k8s.io/apiserver/pkg/server/egressselector"
	"k8s.io/apiserver/plugin/pkg/authenticator/token/oidc"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/internal/follow"
)

const (
	// rememberTokens is for how long a JSON Web Token that was verified is not verified again.
	rememberTokens = 10 * time.Second
	// healthyWithin is how long the issuers of a changed configuration have to tell their keys.
	healthyWithin = time.Minute
)

// issuers authenticates the JSON Web Tokens of the issuers of an AuthenticationConfiguration.
type issuers struct {
	accounts   []string // issuers of service account tokens, which are reserved
	algorithms []string // nil: RS256
	audiences  []string // of this server, for which all their tokens are good
	identity   string   // of this server, in metrics
	egress     egressselector.Lookup
	clock      clock.Clock
	anonymous  *apiserver.AnonymousAuthConfig // of the first configuration
	now        atomic.Pointer[generation]
}

// generation is what was made of one configuration.
type generation struct {
	token   authenticator.Token // nil if the configuration names no issuer
	issuers []string            // their URLs
	health  []func() error
	cancel  context.CancelFunc
	mu      sync.RWMutex // read-locked by callers that use token
	retired bool
}

// begin starts with the first configuration. close ends what it started.
func (i *issuers) begin(config *apiserver.AuthenticationConfiguration) error {
	g, err := i.start(config)
	if err != nil {
		return err
	}
	i.anonymous = config.Anonymous
	i.now.Store(g)
	return nil
}

// start makes authenticators, which learn the issuers' keys by and by.
func (i *issuers) start(config *apiserver.AuthenticationConfiguration) (*generation, error) {
	var compiler authenticationcel.Compiler
	if len(config.JWT) > 0 {
		compiler = authenticationcel.NewDefaultCompiler()
	}
	if err := checkConfig(config, compiler, i.accounts); err != nil {
		return nil, follow.Permanent(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	g := &generation{cancel: cancel}
	var tokens []authenticator.Token
	for n := range config.JWT {
		options := oidc.Options{
			JWTAuthenticator: config.JWT[n], Compiler: compiler, SupportedSigningAlgs: i.algorithms,
			DisallowedIssuers: i.accounts, APIServerID: i.identity, EgressLookup: i.egress,
		}
		if pem := config.JWT[n].Issuer.CertificateAuthority; pem != "" {
			options.CAContentProvider = caContent(pem)
		}
		token, err := oidc.New(ctx, options)
		if err != nil {
			cancel()
			return nil, fmt.Errorf("jwt[%d]: %w", n, err)
		}
		tokens = append(tokens, token)
		g.issuers = append(g.issuers, config.JWT[n].Issuer.URL)
		g.health = append(g.health, token.HealthCheck)
	}
	if len(tokens) > 0 {
		// The audiences are noted in the response, which the cache keeps: so they are what is cached.
		g.token = cache.New(authenticator.WrapAudienceAgnosticToken(i.audiences, tokenunion.New(tokens...)), true,
			rememberTokens, 0)
	}
	return g, nil
}

// caContent is a PEM bundle.
type caContent string

// CurrentCABundleContent implements oidc.CAContentProvider.
func (c caContent) CurrentCABundleContent() []byte { return []byte(c) }

// AuthenticateToken implements authenticator.Token.
func (i *issuers) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	for {
		g := i.now.Load()
		g.mu.RLock()
		if g.retired {
			g.mu.RUnlock()
			continue // there is a newer one
		}
		defer g.mu.RUnlock()
		if g.token == nil {
			return nil, false, nil
		}
		return g.token.AuthenticateToken(ctx, token)
	}
}

func (i *issuers) running() bool { return i.now.Load() != nil }

// replace puts another configuration into effect once all its issuers have told their keys.
func (i *issuers) replace(ctx context.Context, config *apiserver.AuthenticationConfiguration) error {
	if !apiequality.Semantic.DeepEqual(config.Anonymous, i.anonymous) {
		return follow.Permanent(errors.New("the anonymous authenticator can't be changed while the server runs"))
	}
	g, err := i.start(config)
	if err != nil {
		return err
	}
	if err := g.wait(ctx, i.clock); err != nil {
		g.cancel()
		return err
	}
	before := i.now.Swap(g)
	before.retire()
	for _, issuer := range before.issuers {
		if !slices.Contains(g.issuers, issuer) {
			oidc.DeleteJWKSFetchMetrics(issuer, i.identity)
		}
	}
	return nil
}

// wait returns when all issuers have told their keys, with an error if they don't in time.
func (g *generation) wait(ctx context.Context, clk clock.Clock) error {
	deadline := clk.Now().Add(healthyWithin)
	for {
		err := g.sick()
		if err == nil {
			return nil
		}
		if !clk.Now().Before(deadline) {
			return fmt.Errorf("the issuers are not ready after %s: %w", healthyWithin, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-clk.After(100 * time.Millisecond):
		}
	}
}

func (g *generation) sick() error {
	var errs []error
	for _, check := range g.health {
		errs = append(errs, check())
	}
	return errors.Join(errs...)
}

// retire ends a generation after its last use.
func (g *generation) retire() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.retired = true
	g.cancel()
}

// close ends what runs. Nothing is authenticated any more.
func (i *issuers) close() {
	if g := i.now.Load(); g != nil {
		g.cancel()
	}
}
