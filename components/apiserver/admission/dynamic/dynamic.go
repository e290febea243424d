// Package dynamic is the admission that objects of the API configure: webhooks
// (https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/) and policies in CEL
// (https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/ and .../mutating-admission-policy/).
// The plug-ins are those of k8s.io/apiserver. They are large, and most servers never need them: each is made by the first
// write that comes when something is configured for it. Before that it costs a look into an empty list.
package dynamic

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/rest"

	"quintet.dev/quintet/components/apiserver/kinds"
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
	Kinds func() []*kinds.Kind
	// Authorizer answers what expressions ask.
	Authorizer authorizer.Authorizer
	// Services finds the webhooks that are Services.
	Services webhook.ServiceResolver
}

// lazy is a plug-in of k8s.io/apiserver to be.
type lazy struct {
	*admission.Handler
	config  *Config
	trigger schema.GroupResource // of what there must be one for the plug-in to have something to do
	make    func(parts) (admission.Interface, error)

	made atomic.Pointer[admission.Interface]
	mu   sync.Mutex      // held while it is made
	life context.Context // of Run; nil before
}

func newLazy(config *Config, trigger string, make func(parts) (admission.Interface, error), operations ...admission.Operation) *lazy {
	return &lazy{
		Handler: admission.NewHandler(operations...), config: config, make: make,
		trigger: admissionregistrationv1.Resource(trigger),
	}
}

// Run lets the plug-in follow its configuration, once it has any, until ctx ends.
func (l *lazy) Run(ctx context.Context) error {
	l.mu.Lock()
	l.life = ctx
	l.mu.Unlock()
	<-ctx.Done()
	return nil
}

// plugin returns the plug-in, or nil if there is nothing for it to do. What configures admission is not itself admitted by
// webhooks and policies, or nobody could mend them.
func (l *lazy) plugin(ctx context.Context, a admission.Attributes) (admission.Interface, error) {
	if rules.IsExemptAdmissionConfigurationResource(a) {
		return nil, nil
	}
	if made := l.made.Load(); made != nil {
		return *made, nil
	}
	configured, err := l.config.Objects.List(ctx, l.trigger, "")
	if len(configured) == 0 || err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if made := l.made.Load(); made != nil {
		return *made, nil
	}
	if l.life == nil || l.life.Err() != nil {
		return nil, apierrors.NewServiceUnavailable("admission by " + l.trigger.String() + " is not running")
	}
	p, err := l.begin(ctx)
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("admission by %s: %w", l.trigger, err))
	}
	l.made.Store(&p)
	return p, nil
}

// begin makes the plug-in and waits until it knows its configuration.
func (l *lazy) begin(ctx context.Context) (admission.Interface, error) {
	parts, err := newParts(l.life, l.config)
	if err != nil {
		return nil, err
	}
	p, err := l.make(parts)
	if err != nil {
		return nil, err
	}
	parts.initialize(p)
	if v, ok := p.(admission.InitializationValidator); ok {
		if err := v.ValidateInitialization(); err != nil {
			return nil, err
		}
	}
	parts.informers.StartWithContext(l.life)
	if err := parts.informers.WaitForCacheSyncWithContext(ctx).AsError(); err != nil {
		return nil, err
	}
	if w, ok := p.(interface{ WaitForReady() bool }); ok && !w.WaitForReady() {
		return nil, errors.New("its configuration doesn't come")
	}
	if parts.client.read != nil {
		select {
		case <-parts.client.read:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
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
