// Package authz answers whether a user may do what a request asks: an ordered chain of authorizers, each of which allows,
// denies, or has no opinion (https://kubernetes.io/docs/reference/access-authn-authz/authorization/).
package authz

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/union"

	"quintet.dev/quintet/components/apiserver/authz/node"
	"quintet.dev/quintet/components/apiserver/authz/rbac"
	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/objects"
)

// Modes of --authorization-mode.
const (
	ModeNode        = "Node"
	ModeRBAC        = "RBAC"
	ModeAlwaysAllow = "AlwaysAllow"
	ModeAlwaysDeny  = "AlwaysDeny"
)

// Config is what a Chain is made of.
type Config struct {
	// Modes are asked in this order.
	Modes []string
	// Objects feeds the modes Node and RBAC.
	Objects objects.Feeder
	// NodeRules are those of the role "system:node", for the mode Node.
	NodeRules []rbacv1.PolicyRule
}

// Chain is an authorizer. It knows of roles and pods only while it runs. It is safe for concurrent use.
type Chain struct {
	authorizer.Authorizer
	authorizer.RuleResolver

	objects objects.Feeder
	rbac    *rbac.Authorizer
	node    *node.Authorizer
	feeds   []feed
	synced  chan struct{}
}

type feed struct {
	resource schema.GroupResource
	changed  func(old, new kinds.Object)
}

// New builds the chain, or names the mode that it does not know. Members of system:masters are allowed everything before
// any mode is asked.
func New(cfg Config) (*Chain, error) {
	c := &Chain{objects: cfg.Objects, rbac: rbac.New(), synced: make(chan struct{})}
	authorizers := []authorizer.Authorizer{authorizer.AuthorizerFunc(masters)}
	var resolvers []authorizer.RuleResolver
	for i, mode := range cfg.Modes {
		if slices.Contains(cfg.Modes[:i], mode) {
			return nil, fmt.Errorf("authorization-mode %q has mode specified more than once", cfg.Modes)
		}
		var a authorizer.Authorizer
		switch mode {
		case ModeNode:
			c.node = node.New(func(a authorizer.Attributes) bool { return rbac.Allow(cfg.NodeRules, a) })
			c.feedNode()
			a = c.node
		case ModeRBAC:
			a = c.rbac
		case ModeAlwaysAllow:
			a = always(authorizer.DecisionAllow, "")
		case ModeAlwaysDeny:
			a = always(authorizer.DecisionNoOpinion, "Everything is forbidden.")
		default:
			return nil, fmt.Errorf("authorization-mode %q is not a valid mode; use some of %s", mode,
				strings.Join([]string{ModeNode, ModeRBAC, ModeAlwaysAllow, ModeAlwaysDeny}, ", "))
		}
		authorizers = append(authorizers, a)
		if r, ok := a.(authorizer.RuleResolver); ok {
			resolvers = append(resolvers, r)
		}
	}
	if len(cfg.Modes) == 0 {
		return nil, fmt.Errorf("authorization-mode: at least one mode must be passed")
	}
	// The rules are resolved for escalation checks whatever the modes are.
	c.feedRBAC()
	c.Authorizer = union.New(authorizers...)
	c.RuleResolver = union.NewRuleResolvers(resolvers...)
	return c, nil
}

// Escalation returns the checks on writes of roles and bindings.
func (c *Chain) Escalation() *rbac.Escalation {
	return &rbac.Escalation{Rules: c.rbac, Authorizer: c}
}

// Run follows the stored objects until ctx ends. It is called once.
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

func masters(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if u := a.GetUser(); u != nil && slices.Contains(u.GetGroups(), user.SystemPrivilegedGroup) {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// constant gives everybody the same answer.
type constant struct {
	decision authorizer.Decision
	reason   string
}

func always(d authorizer.Decision, reason string) constant { return constant{d, reason} }

func (c constant) Authorize(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	return c.decision, c.reason, nil
}

func (c constant) RulesFor(context.Context, user.Info, string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	if c.decision != authorizer.DecisionAllow {
		return nil, nil, false, nil
	}
	all := []string{"*"}
	return []authorizer.ResourceRuleInfo{&authorizer.DefaultResourceRuleInfo{Verbs: all, APIGroups: all, Resources: all}},
		[]authorizer.NonResourceRuleInfo{&authorizer.DefaultNonResourceRuleInfo{Verbs: all, NonResourceURLs: all}}, false, nil
}
