// Package endpointslicemirroring writes EndpointSlices for Endpoints that people or programs keep themselves
// (https://kubernetes.io/docs/concepts/services-networking/service/#endpointslice-mirroring).
package endpointslicemirroring

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/tools/cache"

	"quintet.dev/quintet/components/controllers/expectations"
	"quintet.dev/quintet/components/controllers/runner"
)

// Controller mirrors Endpoints.
type Controller struct {
	env       runner.Env
	limit     int
	endpoints corelisters.EndpointsLister
	services  corelisters.ServiceLister
	slices    discoverylisters.EndpointSliceLister
	pending   *expectations.Tracker
	metrics   *metrics
	loop      *runner.Loop[string]
}

// New makes the controller; limit is how many addresses of a subset are mirrored, and batch how long changes of
// Endpoints are gathered before they are. It starts working with Run.
func New(env runner.Env, limit int, batch time.Duration) (*Controller, error) {
	core, slices := env.Informers.Core().V1(), env.Informers.Discovery().V1().EndpointSlices()
	c := &Controller{
		env: env, limit: limit, endpoints: core.Endpoints().Lister(), services: core.Services().Lister(),
		slices:  slices.Lister(),
		pending: expectations.New(env.Clock), metrics: newMetrics(env),
	}
	c.loop = runner.NewLoop("endpoint_slice_mirroring", env, c.reconcile)
	return c, errors.Join(
		c.loop.Watch(core.Endpoints().Informer(), runner.Handle(func(old, new *v1.Endpoints) {
			c.loop.AddAfter(runner.Key(runner.Last(old, new)), batch)
		})),
		c.loop.Watch(core.Services().Informer(), runner.Handle(func(old, new *v1.Service) {
			c.loop.Add(runner.Key(runner.Last(old, new)))
		})),
		c.loop.Watch(slices.Informer(), runner.Handle(c.sliceChanged)),
	)
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) error { return c.loop.Run(ctx) }

func (c *Controller) sliceChanged(old, new *discovery.EndpointSlice) {
	for _, slice := range []*discovery.EndpointSlice{old, new} {
		if slice == nil || slice.Labels[discovery.LabelManagedBy] != managedBy {
			continue
		}
		key := slice.Namespace + "/" + slice.Labels[discovery.LabelServiceName]
		if old == nil {
			c.pending.CreationObserved(key)
		}
		c.loop.Add(key)
	}
}

func (c *Controller) reconcile(ctx context.Context, key string) error {
	began := c.env.Clock.Now()
	defer func() { c.metrics.took.WithLabelValues().Observe(c.env.Clock.Since(began).Seconds()) }()
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return err
	}
	if !c.pending.Satisfied(key) {
		return nil // the event we wait for brings us back
	}
	endpoints, err := c.endpoints.Endpoints(namespace).Get(name)
	if runner.IgnoreGone(err) != nil {
		return err
	}
	service, err := c.services.Services(namespace).Get(name)
	if runner.IgnoreGone(err) != nil {
		return err
	}
	current, err := c.slices.EndpointSlices(namespace).List(labels.Set{
		discovery.LabelServiceName: name, discovery.LabelManagedBy: managedBy,
	}.AsSelectorPreValidated())
	if err != nil {
		return err
	}
	if !mirrored(endpoints, service) {
		endpoints = nil
		c.pending.Forget(key)
	}
	p := decide(endpoints, current, c.limit)
	c.warn(endpoints, p)
	if err := c.apply(ctx, key, p); err != nil {
		return err
	}
	c.metrics.wrote(key, endpoints, current, p)
	return nil
}

func (c *Controller) warn(endpoints *v1.Endpoints, p plan) {
	if len(p.create)+len(p.update) == 0 {
		return // said when they were written
	}
	if p.invalid > 0 {
		c.env.Events.Eventf(endpoints, v1.EventTypeWarning, "InvalidIPAddress",
			"Skipped %d invalid IP addresses when mirroring to EndpointSlices", p.invalid)
	}
	if p.dropped > 0 {
		c.env.Events.Eventf(endpoints, v1.EventTypeWarning, "TooManyAddressesToMirror",
			"A max of %d addresses can be mirrored to EndpointSlices per Endpoints subset. %d addresses were skipped",
			c.limit, p.dropped)
	}
}

func (c *Controller) apply(ctx context.Context, key string, p plan) error {
	failed := func(verb string, err error) error { return fmt.Errorf("%s mirrored slice of %s: %w", verb, key, err) }
	for _, slice := range p.create {
		err := c.pending.Create(key, func() error {
			_, err := c.env.Client.DiscoveryV1().EndpointSlices(slice.Namespace).Create(ctx, slice, metav1.CreateOptions{})
			return err
		})
		if err != nil {
			if apierrors.HasStatusCause(err, v1.NamespaceTerminatingCause) {
				return nil
			}
			return failed("create", err)
		}
	}
	for _, slice := range p.update {
		if _, err := c.env.Client.DiscoveryV1().EndpointSlices(slice.Namespace).Update(ctx, slice,
			metav1.UpdateOptions{}); err != nil {
			return failed("update", err)
		}
	}
	for _, slice := range p.delete {
		err := c.env.Client.DiscoveryV1().EndpointSlices(slice.Namespace).Delete(ctx, slice.Name,
			metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(slice.UID))})
		if runner.IgnoreGone(err) != nil {
			return failed("delete", err)
		}
	}
	return nil
}
