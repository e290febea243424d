// Package endpoints writes the Endpoints object of every Service that selects pods
// (https://kubernetes.io/docs/concepts/services-networking/service/#endpoints).
package endpoints

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"quintet.dev/quintet/components/controllers/pods"
	"quintet.dev/quintet/components/controllers/runner"
	"quintet.dev/quintet/components/controllers/services"
)

// Controller writes Endpoints.
type Controller struct {
	env       runner.Env
	services  corelisters.ServiceLister
	pods      *pods.Index
	endpoints corelisters.EndpointsLister
	loop      *runner.Loop[string]
}

// New makes the controller; batch is how long the changes of pods are gathered before they are written. It starts
// working with Run.
func New(env runner.Env, batch time.Duration) (*Controller, error) {
	index, err := pods.NewIndex(env.Informers)
	if err != nil {
		return nil, err
	}
	core := env.Informers.Core().V1()
	c := &Controller{env: env, services: core.Services().Lister(), pods: index,
		endpoints: core.Endpoints().Lister()}
	c.loop = runner.NewLoop("endpoint", env, c.reconcile)
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
	err = c.loop.Watch(core.Endpoints().Informer(), runner.Handle(func(old, new *v1.Endpoints) {
		if old == nil || new == nil {
			// those of a Service that was deleted while the controller did not run, and deleted ones
			c.loop.Add(runner.Key(runner.Last(old, new)))
		}
	}))
	return c, err
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) error { return c.loop.Run(ctx) }

func (c *Controller) reconcile(ctx context.Context, key string) error {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return err
	}
	current, err := c.endpoints.Endpoints(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		current, err = nil, nil
	}
	if err != nil {
		return err
	}
	service, err := c.services.Services(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		return c.delete(ctx, current)
	}
	if err != nil || !services.Selects(service) {
		return err // without a selector, the owner of the Service writes the endpoints
	}
	selected := services.Pods(c.pods, service)
	c.loop.Looked(key, len(selected))
	return c.write(ctx, service, current, plan(service, selected, current))
}

// delete removes what this controller left behind; locks of other programs have no Service either.
func (c *Controller) delete(ctx context.Context, current *v1.Endpoints) error {
	if current == nil || current.Labels[managedByLabel] != managedBy {
		return nil
	}
	err := c.env.Client.CoreV1().Endpoints(current.Namespace).Delete(ctx, current.Name, metav1.DeleteOptions{
		Preconditions: metav1.NewUIDPreconditions(string(current.UID)),
	})
	return runner.IgnoreGone(err)
}

func (c *Controller) write(ctx context.Context, service *v1.Service, current, next *v1.Endpoints) error {
	if next == nil {
		return nil
	}
	client := c.env.Client.CoreV1().Endpoints(service.Namespace)
	if current != nil {
		if _, err := client.Update(ctx, next, metav1.UpdateOptions{}); err != nil {
			if !apierrors.IsConflict(err) {
				c.env.Events.Eventf(next, v1.EventTypeWarning, "FailedToUpdateEndpoint",
					"Failed to update endpoint %v/%v: %v", service.Namespace, service.Name, err)
			}
			return fmt.Errorf("update endpoints %s/%s: %w", service.Namespace, service.Name, err)
		}
		return nil
	}
	_, err := client.Create(ctx, next, metav1.CreateOptions{})
	switch {
	case err == nil, apierrors.HasStatusCause(err, v1.NamespaceTerminatingCause), apierrors.IsNotFound(err):
		return nil
	case apierrors.IsForbidden(err):
		c.env.Events.Eventf(service, v1.EventTypeWarning, "FailedToCreateEndpoint",
			"Failed to create endpoint for service %v/%v: %v", service.Namespace, service.Name, err)
	}
	return fmt.Errorf("create endpoints %s/%s: %w", service.Namespace, service.Name, err)
}
