package delegated

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"golang.org/x/sync/errgroup"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/authentication/request/union"
	requestx509 "k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/authentication/token/cache"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/path"
	authzunion "k8s.io/apiserver/pkg/authorization/union"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/internal/follow"
)

// Gate authenticates and authorizes requests.
type Gate struct {
	// Authorities are those of certificates that clients can be known by, as PEM, which changes; none if there can be
	// none.
	Authorities []func() []byte
	// RequestInfo tells which requests are for resources, for a program that serves a part of the API; nil for one that
	// serves none. It must not change while requests are served.
	RequestInfo apirequest.RequestInfoResolver

	authenticator authenticator.Request
	authorizer    authorizer.Authorizer
	clock         clock.WithTicker
	files         []*follow.Files
	lookup        *lookup
}

// New makes a gate. It reads what is published once, and fails if it can't and that isn't tolerated. The gate is up to
// date as long as Run runs.
func New(ctx context.Context, o Options, clk clock.WithTicker) (*Gate, error) {
	reviews, err := connect(o.AuthenticationKubeconfig)
	if err != nil {
		return nil, fmt.Errorf("--authentication-kubeconfig: %w", err)
	}
	access, err := connect(o.AuthorizationKubeconfig)
	if err != nil {
		return nil, fmt.Errorf("--authorization-kubeconfig: %w", err)
	}
	return assemble(ctx, &o, reviews, access, clk)
}

// assemble returns a gate that uses the clients that are not nil.
func assemble(ctx context.Context, o *Options, reviews, access kubernetes.Interface,
	clk clock.WithTicker) (*Gate, error) {
	g := &Gate{clock: clk}
	if err := g.authenticate(ctx, o, reviews); err != nil {
		return nil, err
	}
	open, err := path.NewAuthorizer(o.AlwaysAllowPaths)
	if err != nil {
		return nil, fmt.Errorf("--authorization-always-allow-paths: %w", err)
	}
	authorizers := []authorizer.Authorizer{masters{}, open}
	if access != nil {
		authorizers = append(authorizers, newReviewAuthorizer(access, o, clk))
	}
	g.authorizer = authzunion.New(authorizers...)
	return g, nil
}

// connect makes a client; nil if nothing tells where the API server is.
func connect(file string) (kubernetes.Interface, error) {
	var config *rest.Config
	var err error
	if file != "" {
		config, err = clientcmd.BuildConfigFromFlags("", file)
	} else if config, err = rest.InClusterConfig(); errors.Is(err, rest.ErrNotInCluster) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = 200, 400 // requests to the program wait for these reviews
	return kubernetes.NewForConfig(config)
}

// authenticate combines the authenticators: by request headers, client certificate and bearer token. Requests without
// credentials are anonymous.
func (g *Gate) authenticate(ctx context.Context, o *Options, client kubernetes.Interface) error {
	var ways []authenticator.Request
	clients, proxies, err := g.authorities(ctx, o, client)
	if err != nil {
		return err
	}
	if proxies != nil {
		g.Authorities = append(g.Authorities, proxies.authorities.bundle)
		ways = append(ways, headerrequest.NewDynamicVerifyOptionsSecure(proxies.authorities.verifyOptions,
			proxies.list(allowedNames),
			proxies.list(usernameHeaders), proxies.list(uidHeaders), proxies.list(groupHeaders),
			proxies.list(extraHeaderPrefixes)))
	}
	if clients != nil {
		g.Authorities = append(g.Authorities, clients.bundle)
		ways = append(ways, requestx509.NewDynamic(clients.verifyOptions, requestx509.CommonNameUserConversion))
	}
	if client != nil {
		ways = append(ways, bearertoken.New(cache.New(&reviewer{client: client}, false, o.TokenTTL, o.TokenTTL)))
	}
	anonymousOnly := anonymous.NewAuthenticator(nil)
	if len(ways) == 0 {
		g.authenticator = anonymousOnly
		return nil
	}
	g.authenticator = union.NewFailOnError(group.NewAuthenticatedGroupAdder(union.New(ways...)), anonymousOnly)
	return nil
}

// authorities are those of clients and of proxies, from files or as they are published; nil if there are none.
func (g *Gate) authorities(ctx context.Context, o *Options,
	client kubernetes.Interface) (*authorities, *proxies, error) {
	var clients *authorities
	var proxy *proxies
	if o.ClientCAFile != "" {
		clients = &authorities{}
		if err := g.follow("--client-ca-file", clients, o.ClientCAFile); err != nil {
			return nil, nil, err
		}
	}
	if o.RequestHeader.ClientCAFile != "" {
		proxy = newProxies()
		proxy.set(o.RequestHeader.lists())
		if err := g.follow("--requestheader-client-ca-file", &proxy.authorities,
			o.RequestHeader.ClientCAFile); err != nil {
			return nil, nil, err
		}
	}
	if o.SkipLookup || client == nil || clients != nil && proxy != nil {
		return clients, proxy, nil
	}
	g.lookup = newLookup(client)
	if clients == nil {
		clients = &authorities{}
		g.lookup.clients = clients
	}
	if proxy == nil {
		proxy = newProxies()
		g.lookup.proxies = proxy
	}
	if err := g.lookup.once(ctx); err != nil && !o.TolerateLookupFailure {
		return nil, nil,
			fmt.Errorf("look up authorities (--authentication-tolerate-lookup-failure goes on without): %w", err)
	}
	return clients, proxy, nil
}

func (g *Gate) follow(flag string, a *authorities, file string) error {
	files, err := follow.New(func(_ context.Context, contents [][]byte) error { return a.set(contents[0]) }, file)
	if err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	g.files = append(g.files, files)
	return nil
}

// Run follows files, and what is published, until ctx ends.
func (g *Gate) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, f := range g.files {
		group.Go(func() error { return f.Run(ctx, g.clock) })
	}
	if g.lookup != nil {
		group.Go(func() error { g.lookup.run(ctx); return nil })
	}
	return group.Wait()
}

// identify authenticates. While the API server has yet to publish its authorities, as it does when it starts, no
// certificate can be verified; a client that shows one waits rather than being taken for anonymous.
func (g *Gate) identify(r *http.Request) (*authenticator.Response, bool, error) {
	who, ok, err := g.authenticator.AuthenticateRequest(r)
	if g.lookup == nil || err == nil && ok && !isAnonymous(who.User) || r.TLS == nil ||
		len(r.TLS.PeerCertificates) == 0 || !g.lookup.wait(r.Context(), g.clock) {
		return who, ok, err
	}
	return g.authenticator.AuthenticateRequest(r)
}

// Protect lets only those requests through that are allowed.
func (g *Gate) Protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-cache, private")
		who, ok, err := g.identify(r)
		if err != nil || !ok {
			closeConnAfterResponse(w, r)
			unauthorized(w, r, err)
			return
		}
		if isAnonymous(who.User) {
			closeConnAfterResponse(w, r)
		}
		asked, err := g.attributes(who.User, r)
		if err != nil {
			undecided(w, r, err)
			return
		}
		decision, reason, err := g.authorizer.Authorize(r.Context(), asked)
		switch {
		case decision == authorizer.DecisionAllow:
			r.Header.Del("Authorization")
			next.ServeHTTP(w, r)
		case err != nil:
			undecided(w, r, err)
		default:
			forbidden(w, r, asked, reason)
		}
	})
}
