// Package crd serves custom resources: each CustomResourceDefinition becomes a row of the table of kinds, whose hooks
// work on unstructured content by the schema of the definition
// (https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/).
//
// Rows are made once per spec of a definition. What is costly in them (validators, CEL programs, types for
// server-side apply, OpenAPI) is made when it is first needed.
package crd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/conversion"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/objects"
	"quintet.dev/quintet/internal/repeat"
)

// Config of a Manager.
type Config struct {
	// Objects reaches the definitions, and the objects that they define once they are installed. Its lists are whole,
	// or fail: the resource of a definition that can't be read stays as it is.
	Objects objects.Store
	// Install makes these rows all the custom resources that are served, and returns when they are. Group versions are
	// defined whether or not any row is of them.
	Install func(ctx context.Context, rows []*api.Kind, defined []schema.GroupVersion) error
	// Shadows tells whether objects of a row would lie where a kind of the program has its own: it isn't served then.
	Shadows func(row *api.Kind) bool
	// Convert makes all objects of a row, as they come, be there in all of its versions, until the row isn't installed
	// any more or ctx ends.
	Convert func(ctx context.Context, row *api.Kind)
	// List reads, consistently, all objects of a row that is installed.
	List func(ctx context.Context, row *api.Kind) ([]api.Object, error)
	// EstablishAfter is for how long a resource is served before its definition says so.
	EstablishAfter time.Duration
	// Shared tells whether there may be other servers on the same store; nil says that there are none.
	Shared func(ctx context.Context) bool
	// Services finds conversion webhooks that are named by a Service.
	Services webhook.ServiceResolver
	// Egress says how conversion webhooks are connected to; nil does so straight.
	Egress webhook.AuthenticationInfoResolverWrapper
	Clock  clock.Clock
}

// Manager follows the definitions.
type Manager struct {
	config     Config
	loop       *repeat.Loop
	converters func() (*conversion.CRConverterFactory, error)

	mu                 sync.Mutex // held by a pass
	conditionEvaluator conditionEvaluator
	resources          map[types.UID]*entry
	installed          []*api.Kind
	defined            []schema.GroupVersion // with them
	cleanings          map[types.UID]*cleaning
	work               sync.WaitGroup // cleanings and conversions
}

// entry is a resource, and what of its definition it was made of.
type entry struct {
	*resource
	spec  *apiextensionsv1.CustomResourceDefinitionSpec
	names apiextensionsv1.CustomResourceDefinitionNames
}

// isOf tells whether the definition still says what the entry was made of. Its generation doesn't tell, as there may be
// another one of the same number in a store that was restored.
func (e *entry) isOf(crd *definition) bool {
	if e.spec != &crd.Spec && !apiequality.Semantic.DeepEqual(e.spec, &crd.Spec) {
		return false
	}
	e.spec = &crd.Spec // which is found to be the same at once the next time
	return apiequality.Semantic.DeepEqual(e.names, crd.Status.AcceptedNames)
}

var group = schema.GroupResource{Group: apiextensionsv1.GroupName, Resource: "customresourcedefinitions"}

// New makes a manager.
func New(config Config) *Manager {
	return &Manager{
		config: config, converters: newConverters(config.Services, config.Egress),
		loop:      repeat.New("serve custom resources", config.Clock, retryPause),
		resources: map[types.UID]*entry{}, cleanings: map[types.UID]*cleaning{},
		conditionEvaluator: conditionEvaluator{pause: config.EstablishAfter, clock: config.Clock},
	}
}

// Sync serves what is defined now. It is called before Run, so that a server isn't ready without its resources: while a
// definition can't be read it goes on trying.
func (m *Manager) Sync(ctx context.Context) error { return m.loop.Until(ctx, m.pass) }

// Run follows the definitions until ctx ends.
func (m *Manager) Run(ctx context.Context) error {
	defer m.work.Wait()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		return m.config.Objects.Feed(ctx, group, func(_, _ api.Object) { m.loop.Wake() }, func() {})
	})
	g.Go(func() error {
		m.loop.Run(ctx, m.due, m.pass)
		return nil
	})
	return g.Wait()
}

// due is when the next definition is to be established.
func (m *Manager) due() <-chan time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.conditionEvaluator.due()
}

// pass brings what is served, and what the definitions say of it, up to date.
func (m *Manager) pass(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	crds, err := objects.ListAs[*definition](m.config.Objects.List(ctx, group, ""))
	if err != nil {
		return err
	}
	all, changed := m.conditionEvaluator.decide(crds)
	if err := m.install(ctx, all); err != nil {
		return err
	}
	var problems []error
	for _, crd := range all {
		if changed[crd.Name] {
			problems = append(problems, m.tell(ctx, crd))
		}
	}
	m.cleanAll(ctx, all)
	return errors.Join(problems...)
}

// install serves what the definitions define.
func (m *Manager) install(ctx context.Context, crds []*definition) error {
	resources := make(map[types.UID]*entry, len(crds))
	var rows []*api.Kind
	defined := definedBy(crds)
	changed := !slices.Equal(defined, m.defined) // what is told of the same rows
	for _, crd := range crds {
		if !servable(crd) {
			continue
		}
		e := m.resources[crd.UID]
		if e == nil || !e.isOf(crd) {
			convert, fault := m.converterOf(crd)
			if fault != nil {
				klog.FromContext(ctx).Error(fault, "Failed to serve custom resource", "definition", crd.Name)
			}
			r, err := newResource(crd, crd.Status.AcceptedNames, convert, fault)
			if err != nil {
				klog.FromContext(ctx).Error(err, "Failed to serve custom resource", "definition", crd.Name)
				continue
			}
			r.kind.Custom.Settle = func(ctx context.Context) { m.settle(ctx, r) }
			e = &entry{resource: r, spec: &crd.Spec, names: crd.Status.AcceptedNames}
		}
		e.turned.Store(turnedAt(crd))
		changed = turns(&e.established, crd, apiextensionsv1.Established) || changed
		changed = turns(&e.ending, crd, apiextensionsv1.Terminating) || changed
		resources[crd.UID] = e
		rows = append(rows, e.kind)
	}
	m.resources = resources
	if slices.Equal(rows, m.installed) && !changed {
		return nil
	}
	if err := m.config.Install(ctx, rows, defined); err != nil {
		return err
	}
	for _, row := range rows {
		if row.Custom.Remote && !slices.Contains(m.installed, row) {
			m.work.Go(func() { m.config.Convert(ctx, row) })
		}
	}
	m.installed, m.defined = rows, defined
	return nil
}

// turns makes what is known of a condition what it is, and tells whether it was something else.
func turns(known *atomic.Bool, crd *definition, condition apiextensionsv1.CustomResourceDefinitionConditionType) bool {
	is := apihelpers.IsCRDConditionTrue(crd, condition)
	return known.Swap(is) != is
}

// definedBy are the group versions that definitions say are served, those that don't have their names yet among them.
func definedBy(crds []*definition) (out []schema.GroupVersion) {
	for _, crd := range crds {
		for _, v := range crd.Spec.Versions {
			if gv := (schema.GroupVersion{Group: crd.Spec.Group, Version: v.Name}); v.Served &&
				!slices.Contains(out, gv) {
				out = append(out, gv)
			}
		}
	}
	return out
}

// errOutdated tells that a decision was made on a state that isn't the newest.
var errOutdated = errors.New("the definition has changed")

// tell writes the status that was decided for the state that crd was copied from. If there is a newer one, its event
// brings the next pass.
func (m *Manager) tell(ctx context.Context, crd *definition) error {
	_, err := m.config.Objects.UpdateStatus(ctx, group, "", crd.Name, func(obj api.Object) (api.Object, error) {
		now := obj.(*definition)
		if now.ResourceVersion != crd.ResourceVersion {
			return nil, errOutdated
		}
		now.Status = *crd.Status.DeepCopy()
		return now, nil
	})
	if err == nil || errors.Is(err, errOutdated) || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return fmt.Errorf("status of %s: %w", crd.Name, err)
}
