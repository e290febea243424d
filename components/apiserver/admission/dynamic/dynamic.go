// Package dynamic is the admission that objects of the API configure: webhooks
// (https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/) and policies in CEL
// (https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/ and
// .../mutating-admission-policy/). The plug-ins are those of k8s.io/apiserver. They are large, and most servers never
// need them: each is made by the first write that comes when something is configured for it. Before that it costs a
// look into an empty list.
package dynamic

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/rest"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/objects"
)

// Config is what the plug-ins are made of.
type Config struct {
	Objects objects.Reader
	// Informers are of the built-in kinds. They are started as needed, with the context of Run.
	Informers informers.SharedInformerFactory
	// Client reaches the server itself.
	Client *rest.Config
	// Kinds are all rows that are served now.
	Kinds func() []*api.Kind
	// Elsewhere describes the group versions that other servers serve now; nil if there are none.
	Elsewhere func() map[schema.GroupVersion]*apidiscoveryv2.APIVersionDiscovery
	// Authorizer answers what expressions ask.
	Authorizer authorizer.Authorizer
	// Services finds the webhooks that are Services.
	Services webhook.ServiceResolver
	// Egress says how webhooks are connected to; nil does so straight.
	Egress webhook.AuthenticationInfoResolverWrapper
}

// lazy is a plug-in of k8s.io/apiserver to be.
type lazy struct {
	*admission.Handler
	config  *Config
	trigger schema.GroupResource            // of what there must be one for the plug-in to have something to do
	exempt  func(admission.Attributes) bool // what passes the plug-in by
	build   func(parts) (admission.Interface, error)

	made atomic.Pointer[admission.Interface]

	mu     sync.Mutex
	life   context.Context // of Run; nil before and after
	making *making         // what is under way; nil if nothing is
	work   sync.WaitGroup  // goroutines that make
}

// making is one try to make the plug-in, which many requests may wait for. It outlives them: what is given up halfway
// would leave its handlers at the informers.
type making struct {
	done chan struct{} // closed at its end
	made admission.Interface
	err  error
}

func newLazy(
	config *Config, trigger string, exempt func(admission.Attributes) bool,
	build func(parts) (admission.Interface, error),
	operations ...admission.Operation,
) *lazy {
	return &lazy{
		Handler: admission.NewHandler(operations...), config: config, exempt: exempt, build: build,
		trigger: admissionregistrationv1.Resource(trigger),
	}
}

// Run lets the plug-in follow its configuration, once it has any, until ctx ends.
func (l *lazy) Run(ctx context.Context) error {
	l.mu.Lock()
	l.life = ctx
	l.mu.Unlock()
	<-ctx.Done()
	l.mu.Lock()
	l.life = nil // nothing begins any more
	l.mu.Unlock()
	l.work.Wait()
	return nil
}

// plugin returns the plug-in, or nil if there is nothing for it to do.
func (l *lazy) plugin(ctx context.Context, a admission.Attributes) (admission.Interface, error) {
	if l.exempt(a) {
		return nil, nil
	}
	if made := l.made.Load(); made != nil {
		return *made, nil
	}
	configured, err := l.config.Objects.List(ctx, l.trigger, "")
	if err != nil { // some can't be read, so the set of hooks is unknown
		return nil, admission.NewForbidden(a, errors.New("not yet ready to handle request"))
	}
	if len(configured) == 0 {
		return nil, nil
	}
	m, err := l.start()
	if err != nil {
		return nil, err
	}
	select {
	case <-m.done:
	case <-ctx.Done():
		return nil, apierrors.NewInternalError(fmt.Errorf("admission by %s: %w", l.trigger, context.Cause(ctx)))
	}
	if m.err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("admission by %s: %w", l.trigger, m.err))
	}
	return m.made, nil
}

// start begins to make the plug-in, unless that is under way or done.
func (l *lazy) start() (*making, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.life == nil {
		return nil, apierrors.NewServiceUnavailable("admission by " + l.trigger.String() + " is not running")
	}
	if l.making != nil {
		return l.making, nil
	}
	m, life := &making{done: make(chan struct{})}, l.life
	l.making = m
	l.work.Go(func() {
		defer close(m.done)
		if m.made, m.err = l.begin(life); m.err == nil {
			l.made.Store(&m.made)
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.making = nil // the next request tries again
	})
	return m, nil
}

// begin makes the plug-in and waits until it knows its configuration.
func (l *lazy) begin(life context.Context) (admission.Interface, error) {
	parts, err := newParts(life, l.config)
	if err != nil {
		return nil, err
	}
	p, err := l.build(parts)
	if err != nil {
		return nil, err
	}
	parts.initialize(p)
	if v, ok := p.(admission.InitializationValidator); ok {
		if err := v.ValidateInitialization(); err != nil {
			return nil, err
		}
	}
	parts.informers.StartWithContext(life)
	if err := parts.informers.WaitForCacheSyncWithContext(life).AsError(); err != nil {
		return nil, err
	}
	if w, ok := p.(interface{ WaitForReady() bool }); ok && !w.WaitForReady() {
		return nil, errors.New("its configuration doesn't come")
	}
	if parts.client.read != nil {
		select {
		case <-parts.client.read:
		case <-life.Done():
			return nil, context.Cause(life)
		}
	}
	return p, nil
}

// Mutator changes objects.
type Mutator struct{ *lazy }

var _ admission.MutationInterface = Mutator{}

// Admit implements admission.MutationInterface.
func (m Mutator) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	p, err := m.plugin(ctx, a)
	if p == nil || err != nil {
		return err
	}
	return p.(admission.MutationInterface).Admit(ctx, a, o)
}

// Validator refuses objects.
type Validator struct{ *lazy }

var _ admission.ValidationInterface = Validator{}

// Validate implements admission.ValidationInterface.
func (v Validator) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	p, err := v.plugin(ctx, a)
	if p == nil || err != nil {
		return err
	}
	return p.(admission.ValidationInterface).Validate(ctx, a, o)
}
