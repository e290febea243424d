// Package horizontalpodautoscaler scales workloads by what their pods use, or by other metrics
// (https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/).
package horizontalpodautoscaler

import (
	"context"
	"errors"
	"fmt"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	autoscalinglisters "k8s.io/client-go/listers/autoscaling/v2"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/scale"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/controllers/runner"
	"quintet.dev/quintet/internal/conflict"
)

// Sources are what the controller reads besides its informers, with its own identity.
type Sources struct {
	Scales  scale.ScalesGetter
	Mapper  meta.RESTMapper
	Metrics Metrics
}

// Controller decides about every autoscaler once in a period, and when its spec changes.
type Controller struct {
	meters      meters
	env         runner.Env
	from        Sources
	options     Options
	autoscalers autoscalinglisters.HorizontalPodAutoscalerLister
	pods        corelisters.PodLister
	memory      *memory
	loop        *runner.Loop[string]
}

// New returns the controller; it starts with Run.
func New(env runner.Env, from Sources, options Options) (*Controller, error) {
	autoscalers, pods := env.Informers.Autoscaling().V2().HorizontalPodAutoscalers(), env.Informers.Core().V1().Pods()
	c := &Controller{env: env, from: from, options: options, autoscalers: autoscalers.Lister(), pods: pods.Lister(),
		memory: newMemory(), meters: newMeters(env, autoscalers.Lister())}
	c.loop = runner.NewLoop("horizontalpodautoscaler", env, c.reconcile)
	c.loop.Needs(pods.Informer())
	return c, c.loop.Watch(autoscalers.Informer(), runner.Handle(c.changed))
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	refreshed := make(chan struct{})
	go func() {
		defer close(refreshed)
		runner.Every(ctx, c.env.Clock, c.options.SyncPeriod, func(context.Context) { c.from.Metrics.Refresh() })
	}()
	err := c.loop.Run(ctx)
	cancel()
	<-refreshed
	return err
}

// changed leaves alone what only the status differs in: this controller writes it.
func (c *Controller) changed(old, new *autoscaling.HorizontalPodAutoscaler) {
	if old == nil || new == nil || !equality.Semantic.DeepEqual(old.Spec, new.Spec) {
		c.loop.Add(runner.Key(runner.Last(old, new)))
	}
}

func (c *Controller) reconcile(ctx context.Context, key string) error {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return err
	}
	hpa, err := c.autoscalers.HorizontalPodAutoscalers(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		c.memory.forget(key)
		c.meters.desired.DeleteLabelValues(namespace, name)
		return nil
	}
	if err != nil {
		return err
	}
	if err := c.autoscale(ctx, key, hpa); err != nil && ctx.Err() == nil {
		// Metrics don't come back sooner for being asked more often.
		klog.FromContext(ctx).Error(err, "Autoscaler failed, will be tried again", "autoscaler", key)
	}
	c.loop.AddAfter(key, c.options.SyncPeriod)
	return nil
}

// autoscale carries out one decision.
func (c *Controller) autoscale(ctx context.Context, key string,
	hpa *autoscaling.HorizontalPodAutoscaler) (err error) {
	var p plan
	o := observed{hpa: hpa, now: c.env.Clock.Now(), options: c.options, history: c.memory.history(key)}
	defer func() { c.meters.observe(o.current, p.desired, p.rescale, c.env.Clock.Since(o.now), err) }()
	target, resource, err := c.scaleOf(ctx, hpa)
	if err != nil {
		return errors.Join(err, c.finish(ctx, hpa, noScale(o, cause(err))))
	}
	o.current, o.existing = target.Spec.Replicas, target.Status.Replicas
	if o.course() == byMetrics {
		if err := c.observe(ctx, key, target.Status.Selector, &o); err != nil {
			return err
		}
	}
	p = decide(o)
	for _, computed := range p.computed {
		c.meters.computation(o.current, computed)
	}
	c.meters.desired.WithLabelValues(hpa.Namespace, hpa.Name).Set(float64(p.status.DesiredReplicas))
	if p.rescale {
		if err := c.rescale(ctx, resource, target, p.desired); err != nil {
			p.notScaled(o, err)
			p.err = errors.Join(p.err, fmt.Errorf("failed to rescale %s: %w", reference(hpa), err))
		} else {
			p.scaled(o)
		}
	}
	c.memory.keep(key, p.history)
	return errors.Join(p.err, c.finish(ctx, hpa, p))
}

// observe adds the pods and the samples of the metrics, or why there are none.
func (c *Controller) observe(ctx context.Context, key, text string, o *observed) error {
	selector, problem := parseSelector(text)
	if o.selector = problem; problem != nil {
		return nil
	}
	var err error
	if o.pods, err = c.pods.Pods(o.hpa.Namespace).List(selector); err != nil {
		return err
	}
	if o.selector = ambiguous(text, c.memory.owners(key, selector, o.pods)); o.selector == nil {
		o.samples = read(ctx, c.from.Metrics, o.hpa, selector, c.env.Clock)
	}
	return nil
}

// finish records the events of a plan and writes its status, if it differs.
func (c *Controller) finish(ctx context.Context, hpa *autoscaling.HorizontalPodAutoscaler, p plan) error {
	for _, e := range p.events {
		c.env.Events.Event(hpa, e.kind, e.reason, e.message)
	}
	if equality.Semantic.DeepEqual(hpa.Status, p.status) {
		return nil
	}
	changed := hpa.DeepCopy()
	changed.Status = p.status
	_, err := c.env.Client.AutoscalingV2().HorizontalPodAutoscalers(hpa.Namespace).UpdateStatus(ctx, changed,
		metav1.UpdateOptions{})
	if runner.IgnoreGone(err) == nil {
		return nil
	}
	c.env.Events.Event(hpa, v1.EventTypeWarning, "FailedUpdateStatus", err.Error())
	return fmt.Errorf("failed to update status for %s: %w", hpa.Name, err)
}

func reference(hpa *autoscaling.HorizontalPodAutoscaler) string {
	return fmt.Sprintf("%s/%s/%s", hpa.Spec.ScaleTargetRef.Kind, hpa.Namespace, hpa.Spec.ScaleTargetRef.Name)
}

// scaleError is why a target has no size, with what was attempted.
type scaleError struct {
	attempt string
	err     error
}

func (e *scaleError) Error() string { return fmt.Sprintf("%s: %v", e.attempt, e.err) }
func (e *scaleError) Unwrap() error { return e.err }

// cause is the error without what was attempted, as events and conditions have it.
func cause(err error) error {
	if e := (*scaleError)(nil); errors.As(err, &e) {
		return e.err
	}
	return err
}

// scaleOf returns the size of the target, and under which resource it was found.
func (c *Controller) scaleOf(ctx context.Context, hpa *autoscaling.HorizontalPodAutoscaler) (*autoscalingv1.Scale,
	schema.GroupResource, error) {
	target := hpa.Spec.ScaleTargetRef
	none := schema.GroupResource{}
	version, err := schema.ParseGroupVersion(target.APIVersion)
	if err != nil {
		return nil, none, &scaleError{"invalid API version in scale target reference", err}
	}
	mappings, err := c.from.Mapper.RESTMappings(version.WithKind(target.Kind).GroupKind())
	if err != nil {
		return nil, none, &scaleError{"unable to determine resource for scale target reference", err}
	}
	first := errors.New("unrecognized resource")
	for i, mapping := range mappings {
		resource := mapping.Resource.GroupResource()
		found, err := c.from.Scales.Scales(hpa.Namespace).Get(ctx, resource, target.Name, metav1.GetOptions{})
		if err == nil {
			return found, resource, nil
		}
		if i == 0 {
			first = err
		}
	}
	return nil, none, &scaleError{"failed to query scale subresource for " + reference(hpa), first}
}

// rescale writes the size of the target, over changes that came in between.
func (c *Controller) rescale(ctx context.Context, resource schema.GroupResource, target *autoscalingv1.Scale,
	replicas int32) error {
	scales := c.from.Scales.Scales(target.Namespace)
	return conflict.Retry(retry.DefaultRetry, func() error {
		target.Spec.Replicas = replicas
		_, err := scales.Update(ctx, resource, target, metav1.UpdateOptions{})
		if apierrors.IsConflict(err) {
			if latest, getErr := scales.Get(ctx, resource, target.Name, metav1.GetOptions{}); getErr == nil {
				target = latest
			}
		}
		return err
	})
}
