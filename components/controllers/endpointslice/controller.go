// Package endpointslice writes the EndpointSlices of every Service that selects pods
// (https://kubernetes.io/docs/concepts/services-networking/endpoint-slices/).
package endpointslice

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/tools/cache"

	"quintet.dev/quintet/components/controllers/expectations"
	"quintet.dev/quintet/components/controllers/pods"
	"quintet.dev/quintet/components/controllers/runner"
	"quintet.dev/quintet/components/controllers/services"
)

const managedBy = "endpointslice-controller.k8s.io"

var kind = v1.SchemeGroupVersion.WithKind("Service")

// Controller writes EndpointSlices.
type Controller struct {
	metrics  *metrics
	env      runner.Env
	limit    int
	services corelisters.ServiceLister
	pods     *pods.Index
	nodes    corelisters.NodeLister
	slices   discoverylisters.EndpointSliceLister
	pending  *expectations.Tracker
	loop     *runner.Loop[string]
	topology *topology
	weights  *runner.Loop[string] // its only key is topologyKey
}

// New makes the controller; limit is how many endpoints a slice holds, and batch how long the changes of pods are
// gathered before they are written. It starts working with Run.
func New(env runner.Env, limit int, batch time.Duration) (*Controller, error) {
	index, err := pods.NewIndex(env.Informers)
	if err != nil {
		return nil, err
	}
	core, slices := env.Informers.Core().V1(), env.Informers.Discovery().V1().EndpointSlices()
	c := &Controller{
		env: env, metrics: newMetrics(env), limit: limit, services: core.Services().Lister(), pods: index,
		nodes:  core.Nodes().Lister(),
		slices: slices.Lister(), pending: expectations.New(env.Clock), topology: newTopology(),
	}
	single := env
	single.Workers = 1
	c.weights = runner.NewLoop("endpoint_slice_topology", single, c.weigh)
	if err := c.weights.Watch(core.Nodes().Informer(), runner.Handle(func(old, new *v1.Node) {
		if !sameCapacity(old, new) {
			c.weights.Add(topologyKey)
		}
	})); err != nil {
		return nil, err
	}
	c.loop = runner.NewLoop("endpoint_slice", env, c.measured)
	if err := c.loop.Watch(core.Services().Informer(), runner.Handle(func(old, new *v1.Service) {
		c.loop.Add(runner.Key(runner.Last(old, new)))
	})); err != nil {
		return nil, err
	}
	if err := c.loop.Watch(core.Pods().Informer(), runner.Handle(func(old, new *v1.Pod) {
		for _, key := range services.Of(c.services, old, new) {
			c.loop.AddAfter(key, batch)
		}
	})); err != nil {
		return nil, err
	}
	if err := c.loop.Watch(core.Nodes().Informer(), runner.Handle(c.nodeChanged)); err != nil {
		return nil, err
	}
	return c, c.loop.Watch(slices.Informer(), runner.Handle(c.sliceChanged))
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.weights.Run(ctx) })
	group.Go(func() error { return c.loop.Run(ctx) })
	return group.Wait()
}

// nodeChanged handles changes of a node's zone, which is part of its endpoints.
func (c *Controller) nodeChanged(old, new *v1.Node) {
	if old != nil && new != nil && old.Labels[v1.LabelTopologyZone] == new.Labels[v1.LabelTopologyZone] {
		return
	}
	if runner.Last(old, new).Labels[v1.LabelTopologyZone] == "" {
		return
	}
	all, err := c.services.List(labels.Everything())
	if err != nil {
		return
	}
	for _, service := range all {
		c.loop.Add(runner.Key(service))
	}
}

func (c *Controller) sliceChanged(old, new *discovery.EndpointSlice) {
	slice := runner.Last(old, new)
	name := slice.Labels[discovery.LabelServiceName]
	if name == "" || slice.Labels[discovery.LabelManagedBy] != managedBy {
		if old == nil || old.Labels[discovery.LabelManagedBy] != managedBy {
			return
		}
		name = old.Labels[discovery.LabelServiceName] // taken away from us
	}
	key := slice.Namespace + "/" + name
	if old == nil {
		c.pending.CreationObserved(key)
	}
	c.loop.Add(key)
}

// measured reconciles, and counts the outcome.
func (c *Controller) measured(ctx context.Context, key string) error {
	err := c.reconcile(ctx, key)
	result := "success"
	if err != nil {
		result = "error"
	}
	c.metrics.syncs.WithLabelValues(result).Inc()
	return err
}

func (c *Controller) reconcile(ctx context.Context, key string) error {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return err
	}
	service, err := c.services.Services(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		c.pending.Forget(key)
		c.metrics.set(key, nil)
		c.topology.forget(key)
		return nil // the slices are the Service's dependents and go with it
	}
	if err != nil || !services.Selects(service) || service.DeletionTimestamp != nil {
		return err
	}
	if !c.pending.Satisfied(key) {
		return nil // the event we wait for brings us back
	}
	o, err := c.observe(service)
	if err != nil {
		return err
	}
	c.loop.Looked(key, len(o.pods))
	var homeless []*v1.Pod
	o.pods, homeless = withNode(o)
	p := decide(o)
	for _, e := range c.topology.hint(ctx, key, o, &p) {
		c.env.Events.Event(service, e.EventType, e.Reason, e.Message)
	}
	if err := c.apply(ctx, key, service, p); err != nil {
		return err
	}
	c.metrics.wrote(key, o, p)
	if len(homeless) > 0 { // the node may come, or the pod go: neither is watched here
		return fmt.Errorf("skipping Pod %s for Service %s: Node %s Not Found", homeless[0].Name, key,
			homeless[0].Spec.NodeName)
	}
	return nil
}

func (c *Controller) observe(service *v1.Service) (observed, error) {
	o := observed{service: service, limit: c.limit, nodes: map[string]*v1.Node{}}
	var err error
	o.slices, err = c.slices.EndpointSlices(service.Namespace).List(labels.Set{
		discovery.LabelServiceName: service.Name,
		discovery.LabelManagedBy:   managedBy,
	}.AsSelectorPreValidated())
	if err != nil {
		return o, err
	}
	o.pods = services.Pods(c.pods, service)
	for _, pod := range o.pods {
		if node, err := c.nodes.Get(pod.Spec.NodeName); err == nil {
			o.nodes[node.Name] = node
		}
	}
	return o, nil
}

func (c *Controller) apply(ctx context.Context, key string, service *v1.Service, p plan) error {
	client := c.env.Client.DiscoveryV1().EndpointSlices(service.Namespace)
	failed := func(verb string, err error) error {
		if !apierrors.IsConflict(err) {
			c.env.Events.Eventf(service, v1.EventTypeWarning, "FailedToUpdateEndpointSlices",
				"Error updating Endpoint Slices for Service %s/%s: %v", service.Namespace, service.Name, err)
		}
		return fmt.Errorf("%s endpoint slice of service %s: %w", verb, key, err)
	}
	for _, slice := range p.create {
		err := c.pending.Create(key, func() error {
			_, err := client.Create(ctx, slice, metav1.CreateOptions{})
			return err
		})
		if err != nil {
			if apierrors.HasStatusCause(err, v1.NamespaceTerminatingCause) || apierrors.IsNotFound(err) {
				return nil
			}
			return failed("create", err)
		}
	}
	for _, slice := range p.update {
		if _, err := client.Update(ctx, slice, metav1.UpdateOptions{}); err != nil {
			return failed("update", err)
		}
	}
	for _, slice := range p.delete {
		err := client.Delete(ctx, slice.Name,
			metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(slice.UID))})
		if err != nil && !apierrors.IsNotFound(err) {
			return failed("delete", err)
		}
	}
	return nil
}
