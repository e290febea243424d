// Package garbagecollector deletes objects whose owners are gone, and lets owners wait for their dependents or let
// them go (https://kubernetes.io/docs/concepts/architecture/garbage-collection/).
package garbagecollector

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/lru"

	"quintet.dev/quintet/components/controllers/runner"
)

const (
	// rediscovery is the interval of discovery, in addition to changes of CustomResourceDefinitions.
	rediscovery = 30 * time.Second
	// retryInterval is the delay after which an object is processed again while the graph is incomplete.
	retryInterval = 100 * time.Millisecond
	// absences is how many owners are remembered not to exist.
	absences = 500
)

// task is an object to process: to delete it if it is garbage or, with orphan, to orphan its dependents.
type task struct {
	uid    types.UID
	orphan bool
}

// Sources are the clients for resources and objects; they use the controller's identity.
type Sources struct {
	Discovery discovery.DiscoveryInterface
	Metadata  metadata.Interface
	Mapper    meta.ResettableRESTMapper
	// Shared are informers that run anyway, by resource; the collector watches the others itself.
	Shared map[schema.GroupVersionResource]cache.SharedIndexInformer
}

// Controller collects garbage.
type Controller struct {
	failedSyncs *prometheus.CounterVec
	env         runner.Env
	sources     Sources
	graph       *graph
	monitors    *monitors
	loop        *runner.Loop[task]
	absent      *lru.Cache // of coordinates
	changed     chan struct{}
}

// New makes the controller; it starts working with Run.
func New(env runner.Env, sources Sources) (*Controller, error) {
	c := &Controller{env: env, sources: sources, graph: newGraph(), absent: lru.New(absences),
		changed: make(chan struct{}, 1),
		failedSyncs: env.Counter("garbagecollector_controller", "resources_sync_error_total",
			"Failed attempts to follow the resources that there are.")}
	c.loop = runner.NewLoop("garbage_collector_attempt_to_delete", env, c.reconcile)
	c.monitors = &monitors{
		client: sources.Metadata, shared: sources.Shared, graph: c.graph, clock: env.Clock,
		defined: c.definitionsChanged,
		running: map[schema.GroupVersionResource]*monitor{},
		notify: func(tasks []task) {
			for _, t := range tasks {
				c.loop.Add(t)
			}
		},
	}
	return c, nil
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	var loops sync.WaitGroup
	loops.Go(func() { c.discover(ctx) })
	err := c.loop.Run(ctx)
	loops.Wait()
	c.monitors.stop()
	return err
}

// discover keeps the monitors in step with the resources that are served.
func (c *Controller) discover(ctx context.Context) {
	ticker := c.env.Clock.NewTicker(rediscovery)
	defer ticker.Stop()
	retry := c.env.Clock.NewTimer(0)
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		case <-retry.C():
		case <-c.changed:
			c.sleep(ctx, retryInterval) // a new definition is served a moment after it is written
		}
		if err := c.rediscover(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).V(2).Info("Not all resources could be discovered", "err", err)
			retry.Reset(time.Second)
		}
	}
}

func (c *Controller) sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-c.env.Clock.After(d):
	}
}

func (c *Controller) rediscover(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			c.failedSyncs.WithLabelValues().Inc()
		}
	}()
	resources, discoveryErr := deletable(c.sources.Discovery)
	if len(resources) == 0 {
		return discoveryErr
	}
	if discoveryErr != nil { // an unseen object may exist: keep watching it
		c.monitors.mu.Lock()
		for resource, running := range c.monitors.running {
			if _, seen := resources[resource]; !seen {
				resources[resource] = running.kind
			}
		}
		c.monitors.mu.Unlock()
	}
	c.sources.Mapper.Reset()
	if err := c.monitors.follow(ctx, resources); err != nil {
		return err
	}
	return discoveryErr
}

// definitionsChanged triggers a discovery: resources may have been added or removed.
func (c *Controller) definitionsChanged() {
	select {
	case c.changed <- struct{}{}:
	default: // one is asked for already
	}
}

func (c *Controller) reconcile(ctx context.Context, t task) error {
	if !c.monitors.ready() {
		c.loop.AddAfter(t, retryInterval)
		return nil
	}
	o := c.graph.get(t.uid)
	switch {
	case o == nil:
		return nil
	case t.orphan:
		return c.letGo(ctx, o)
	case o.waits():
		return c.awaitDependents(ctx, o)
	case o.deleted || len(o.owners) == 0 || c.graph.ownersConfirmed(o):
		return nil
	}
	return c.collect(ctx, o)
}

// coordinates are where a reference says its object is.
type coordinates struct {
	metav1.OwnerReference
	namespace string
}

func place(ref metav1.OwnerReference, namespace string) coordinates {
	ref.Controller, ref.BlockOwnerDeletion = nil, nil
	return coordinates{ref, namespace}
}
