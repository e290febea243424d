// Package authz answers whether a user may do what a request asks: an ordered chain of authorizers, each of which
// allows, denies, or has no opinion (https://kubernetes.io/docs/reference/access-authn-authz/authorization/).
package authz

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/server/options/authorizationconfig/metrics"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/apiserver/authz/abac"
	"quintet.dev/quintet/components/apiserver/authz/node"
	"quintet.dev/quintet/components/apiserver/authz/rbac"
	"quintet.dev/quintet/components/apiserver/egress"
	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/objects"
	"quintet.dev/quintet/internal/follow"
)

// Config is what a Chain is made of.
type Config struct {
	// Modes are asked in this order. Webhook is that of the mode Webhook; WebhookGiven tells that a flag of it was
	// given, be it with its default.
	Modes        []string
	Webhook      Webhook
	WebhookGiven bool
	// PolicyFile is that of the mode ABAC.
	PolicyFile string
	// ConfigFile, an AuthorizationConfiguration, can have several webhooks. It excludes Modes and Webhook, and is read
	// again when it changes.
	ConfigFile string
	// Objects feeds the modes Node and RBAC.
	Objects objects.Feeder
	// NodeRules are those of the role "system:node", for the mode Node.
	NodeRules []rbacv1.PolicyRule
	// Graph takes the times of changes of what the mode Node knows; nil takes none.
	Graph func(operation string, took time.Duration)
	// Dial connects to webhooks; nil does so straight.
	Dial  egress.Dial
	Clock clock.WithTicker
	// Identity tells API servers apart in metrics.
	Identity string
}

// Chain is an authorizer. It knows of roles and pods only while it runs. It is safe for concurrent use.
type Chain struct {
	dial    egress.Dial
	graph   func(operation string, took time.Duration)
	objects objects.Feeder
	clock   clock.WithTicker
	rbac    *rbac.Authorizer
	local   sets.Set[string] // types of the first configuration, webhooks aside, which all have
	node    *node.Authorizer // nil unless it is one of them
	abac    abac.Policies    // nil unless it is one of them
	now     atomic.Pointer[generation]
	config  *apiserver.AuthorizationConfiguration // of which now was made
	file    *follow.Files                         // nil without ConfigFile
	feeds   []feed
	synced  chan struct{}
}

type feed struct {
	resource schema.GroupResource
	changed  func(old, new api.Object)
}

// New builds the chain, or says what can't be built. Members of system:masters are allowed everything before any mode
// is asked.
func New(cfg Config) (*Chain, error) {
	c := &Chain{dial: cfg.Dial, graph: cfg.Graph, objects: cfg.Objects, clock: cfg.Clock, rbac: rbac.New(),
		synced: make(chan struct{})}
	if c.clock == nil {
		c.clock = clock.RealClock{}
	}
	c.feedRBAC() // the rules are resolved for escalation checks whatever the modes are
	first := func(config *apiserver.AuthorizationConfiguration) (err error) {
		if has(config, ModeNode) {
			c.node = node.New(func(a authorizer.Attributes) bool { return rbac.Allow(cfg.NodeRules, a) })
			c.feedNode()
		}
		c.local = localTypes(config)
		g, err := c.build(config)
		c.config = config
		c.now.Store(g)
		return err
	}
	if cfg.ConfigFile == "" {
		config, err := configuration(cfg.Modes, &cfg.Webhook, cfg.PolicyFile)
		if err != nil {
			return nil, err
		}
		if err := c.loadPolicies(config, cfg.PolicyFile); err != nil {
			return nil, err
		}
		if err := first(config); err != nil {
			return nil, fmt.Errorf("--authorization-webhook-*: %w", err) // nothing else can fail
		}
		return c, nil
	}
	if len(cfg.Modes) > 0 || cfg.WebhookGiven || cfg.Webhook.given() {
		return nil,
			errors.New("--authorization-config can not be specified when --authorization-mode or --authorization-webhook-* " +
				"flags are defined")
	}
	metrics.RegisterMetrics()
	var err error
	c.file, err = follow.New(func(_ context.Context, contents [][]byte) error {
		if c.now.Load() != nil {
			return follow.Permanent(c.reload(contents[0], cfg.Identity))
		}
		config, err := decodeConfig(contents[0])
		if err != nil {
			return err
		}
		if err := c.loadPolicies(config, cfg.PolicyFile); err != nil {
			return err
		}
		metrics.RecordAuthorizationConfigLastConfigInfo(cfg.Identity, string(contents[0]))
		return first(config)
	}, cfg.ConfigFile)
	if err != nil {
		return nil, fmt.Errorf("--authorization-config %s: %w", cfg.ConfigFile, err)
	}
	c.file.Failed = func() { metrics.RecordAuthorizationConfigAutomaticReloadFailure(cfg.Identity) }
	return c, nil
}

// loadPolicies reads those of the mode ABAC, once and for all.
func (c *Chain) loadPolicies(config *apiserver.AuthorizationConfiguration, file string) (err error) {
	if !has(config, ModeABAC) {
		return nil
	}
	if c.abac, err = abac.Load(file); err != nil {
		return fmt.Errorf("--authorization-policy-file: %w", err)
	}
	return nil
}

func has(config *apiserver.AuthorizationConfiguration, mode string) bool {
	return slices.ContainsFunc(config.Authorizers,
		func(a apiserver.AuthorizerConfiguration) bool { return string(a.Type) == mode })
}

// HasRBAC tells whether roles count: from the start on or never.
func (c *Chain) HasRBAC() bool { return c.local.Has(ModeRBAC) }

// Authorize implements authorizer.Authorizer.
func (c *Chain) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	return c.now.Load().Authorize(ctx, a)
}

// RulesFor implements authorizer.RuleResolver.
func (c *Chain) RulesFor(ctx context.Context, u user.Info, namespace string) ([]authorizer.ResourceRuleInfo,
	[]authorizer.NonResourceRuleInfo, bool, error) {
	return c.now.Load().RulesFor(ctx, u, namespace)
}

// Escalation returns the checks on writes of roles and bindings. The reads of stored tell what is stored now.
func (c *Chain) Escalation(stored objects.Reader) *rbac.Escalation {
	return &rbac.Escalation{Rules: c.rbac, Stored: stored, Authorizer: c}
}

// Run follows the stored objects and the configuration until ctx ends. It is called once.
func (c *Chain) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	var pending atomic.Int32
	pending.Store(int32(len(c.feeds)))
	for _, f := range c.feeds {
		synced := sync.OnceFunc(func() {
			if pending.Add(-1) == 0 {
				close(c.synced)
			}
		})
		group.Go(func() error { return c.objects.Feed(ctx, f.resource, f.changed, synced) })
	}
	if c.file != nil {
		group.Go(func() error { return c.file.Run(ctx, c.clock) })
	}
	return group.Wait()
}

// WaitSynced returns once the chain knows the objects that existed when Run began.
func (c *Chain) WaitSynced(ctx context.Context) error {
	select {
	case <-c.synced:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
