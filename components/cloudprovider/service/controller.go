// Package service is the service controller of a cloud provider: it has load balancers made and removed for Services
// of type LoadBalancer.
package service

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/internal/reconcile"
)

const (
	minRetryDelay = 5 * time.Second
	maxRetryDelay = 300 * time.Second
)

// nodesKey is the queue's key for the nodes as a whole; Services' keys have a slash.
const nodesKey = "nodes"

// LoadBalancers are made and removed by a cloud. The controller calls one method at a time.
type LoadBalancers interface {
	// Adopt takes over the load balancers that a predecessor left, before any other is made.
	Adopt([]*v1.Service)
	// Exists tells whether a Service, by its key, has a load balancer.
	Exists(key string) bool
	// Ensure makes the load balancer of a Service or changes it. It must not change the Service.
	Ensure(key string, svc *v1.Service) (v1.LoadBalancerStatus, error)
	// Delete removes the load balancer of a Service, if there is one.
	Delete(key string)
	// UpdateNodes has all load balancers lead to the nodes that are fit for it, which are among all of the cluster.
	UpdateNodes(all, fit []*v1.Node)
}

// Config is what a Controller works with; all fields but Class are required.
type Config struct {
	Client        typedcore.ServicesGetter
	Services      cache.SharedIndexInformer
	Nodes         cache.SharedIndexInformer
	Events        record.EventRecorder
	LoadBalancers LoadBalancers
	// Class is served in addition to Services without a class.
	Class string
	Clock clock.WithTicker
}

// Controller syncs one Service at a time.
type Controller struct {
	client        typedcore.ServicesGetter
	services      corelisters.ServiceLister
	nodes         corelisters.NodeLister
	events        record.EventRecorder
	loadBalancers LoadBalancers
	class         string
	loop          *reconcile.Loop[string]

	// The fields below belong to Run's goroutine.
	known   map[string]*v1.Service           // with a load balancer, as they were synced last
	written map[string]v1.LoadBalancerStatus // the last status of each of them that was written
	waiting sets.Set[string]                 // Services whose load balancer could not be made
	// names of the nodes that load balancers lead to; nil before they are known
	hosts sets.Set[string]
}

// New returns a controller that handles events as soon as the informers are started.
func New(config Config) (*Controller, error) {
	c := &Controller{
		client:        config.Client,
		services:      corelisters.NewServiceLister(config.Services.GetIndexer()),
		nodes:         corelisters.NewNodeLister(config.Nodes.GetIndexer()),
		events:        config.Events,
		loadBalancers: config.LoadBalancers,
		class:         config.Class,
		known:         map[string]*v1.Service{}, written: map[string]v1.LoadBalancerStatus{}, waiting: sets.New[string](),
	}
	c.loop = reconcile.New(reconcile.Config{
		Name: "service", Clock: config.Clock, MinDelay: minRetryDelay, MaxDelay: maxRetryDelay,
	}, c.sync)
	err := c.loop.Watch(config.Services, cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) {
			if svc, ok := object.(*v1.Service); ok && (c.wantsLoadBalancer(svc) || c.needsCleanup(svc)) {
				c.enqueue(svc)
			}
		},
		UpdateFunc: c.updated,
		DeleteFunc: c.enqueue,
	})
	if err != nil {
		return nil, err
	}
	changed := func(any) { c.loop.Add(nodesKey) }
	err = c.loop.Watch(config.Nodes, cache.ResourceEventHandlerFuncs{
		AddFunc: changed, UpdateFunc: func(_, now any) { changed(now) }, DeleteFunc: changed,
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (c *Controller) updated(old, now any) {
	was, ok1 := old.(*v1.Service)
	is, ok2 := now.(*v1.Service)
	if !ok1 || !ok2 {
		return
	}
	update, event := c.needsUpdate(was, is)
	if event != nil {
		c.events.Event(is, v1.EventTypeNormal, event.reason, event.message)
	}
	if update || c.needsCleanup(is) {
		c.enqueue(is)
	}
}

func (c *Controller) enqueue(object any) {
	if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil {
		c.loop.Add(key)
	}
}

// Run syncs until ctx ends. Load balancers stay.
func (c *Controller) Run(ctx context.Context) error {
	if err := c.loop.WaitForSync(ctx); err != nil {
		return err
	}
	all, err := c.services.List(labels.Everything())
	if err != nil {
		return err
	}
	c.adopt(all)
	if err := c.syncNodes(); err != nil {
		return err
	}
	return c.loop.Run(ctx)
}

// adopt hands over Services that have addresses, the oldest first.
func (c *Controller) adopt(all []*v1.Service) {
	var ours []*v1.Service
	for _, svc := range all {
		if c.wantsLoadBalancer(svc) || c.needsCleanup(svc) {
			ours = append(ours, svc)
		}
	}
	slices.SortFunc(ours, func(a, b *v1.Service) int {
		if by := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); by != 0 {
			return by
		}
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	c.loadBalancers.Adopt(ours)
}

func (c *Controller) sync(ctx context.Context, key string) error {
	if key == nodesKey {
		return c.syncNodes()
	}
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return err
	}
	svc, err := c.services.Services(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		c.forget(key)
		return nil
	}
	if err != nil {
		return err
	}
	if before := c.known[key]; before != nil && before.UID != svc.UID {
		c.forget(key) // deleted without the finalizer, and recreated
	}
	if c.wantsLoadBalancer(svc) && !c.needsCleanup(svc) && svc.DeletionTimestamp == nil {
		err = c.ensure(ctx, key, svc)
	} else {
		err = c.delete(ctx, key, svc)
	}
	if err != nil {
		c.events.Eventf(svc, v1.EventTypeWarning, "SyncLoadBalancerFailed", "Error syncing load balancer: %v", err)
	}
	return err
}

// forget removes the load balancer of a Service that is gone.
func (c *Controller) forget(key string) {
	c.waiting.Delete(key)
	before := c.known[key]
	delete(c.known, key)
	delete(c.written, key)
	if !c.loadBalancers.Exists(key) {
		return
	}
	if before != nil {
		c.events.Event(before, v1.EventTypeNormal, "DeletingLoadBalancer", "Deleting load balancer")
	}
	c.loadBalancers.Delete(key)
	if before != nil {
		c.events.Event(before, v1.EventTypeNormal, "DeletedLoadBalancer", "Deleted load balancer")
	}
	c.retryWaiting()
}

func (c *Controller) ensure(ctx context.Context, key string, svc *v1.Service) error {
	c.events.Event(svc, v1.EventTypeNormal, "EnsuringLoadBalancer", "Ensuring load balancer")
	if err := c.addFinalizer(ctx, svc); err != nil {
		return fmt.Errorf("failed to add load balancer cleanup finalizer: %w", err)
	}
	if len(c.hosts) == 0 {
		c.noNodes(svc)
	}
	c.known[key] = svc
	status, err := c.loadBalancers.Ensure(key, svc)
	if err != nil {
		c.waiting.Insert(key)
		return fmt.Errorf("failed to ensure load balancer: %w", err)
	}
	c.waiting.Delete(key)
	c.events.Event(svc, v1.EventTypeNormal, "EnsuredLoadBalancer", "Ensured load balancer")
	if before := svc.Status.LoadBalancer; len(before.Ingress) > 0 && !apiequality.Semantic.DeepEqual(before, status) {
		c.retryWaiting() // an address may have been given back
	}
	// Not found is a Service that was deleted meanwhile without its finalizer.
	if err := c.setStatus(ctx, key, svc, status); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("failed to update load balancer status: %w", err)
	}
	return nil
}

func (c *Controller) delete(ctx context.Context, key string, svc *v1.Service) error {
	exists := c.loadBalancers.Exists(key)
	if c.known[key] == nil && !exists && !c.needsCleanup(svc) {
		return nil // another controller's, or none's
	}
	if exists {
		c.events.Event(svc, v1.EventTypeNormal, "DeletingLoadBalancer", "Deleting load balancer")
	}
	// The removal of the load balancer can't fail. It comes last, as an address is free for another Service from then
	// on, and must not be in two statuses.
	if err := c.release(ctx, key, svc); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("failed to remove load balancer cleanup finalizer: %w", err)
	}
	c.loadBalancers.Delete(key)
	c.events.Event(svc, v1.EventTypeNormal, "DeletedLoadBalancer", "Deleted load balancer")
	delete(c.known, key)
	delete(c.written, key)
	c.waiting.Delete(key)
	c.retryWaiting()
	return nil
}

// retryWaiting syncs the Services soon whose load balancers could not be made, as an address may be free now.
func (c *Controller) retryWaiting() {
	for key := range c.waiting {
		c.loop.Retry(key)
	}
}

func (c *Controller) noNodes(svc *v1.Service) {
	c.events.Event(svc, v1.EventTypeWarning, "UnAvailableLoadBalancer", "There are no available nodes for LoadBalancer")
}

// syncNodes has load balancers lead to the nodes that are fit for it.
func (c *Controller) syncNodes() error {
	all, err := c.nodes.List(labels.Everything())
	if err != nil {
		return err
	}
	fit := slices.DeleteFunc(slices.Clone(all), func(node *v1.Node) bool { return !takesLoadBalancers(node) })
	c.loadBalancers.UpdateNodes(all, fit)
	names := sets.New[string]()
	for _, node := range fit {
		names.Insert(node.Name)
	}
	changed := c.hosts != nil && !names.Equal(c.hosts)
	c.hosts = names
	if !changed {
		return nil
	}
	for key, svc := range c.known {
		switch {
		case len(names) == 0:
			c.noNodes(svc)
		case c.loadBalancers.Exists(key):
			c.events.Event(svc, v1.EventTypeNormal, "UpdatedLoadBalancer", "Updated load balancer with new hosts")
		}
	}
	return nil
}
