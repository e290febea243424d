// Package resourcequota counts what the objects of a namespace use of its quotas
// (https://kubernetes.io/docs/concepts/policy/resource-quotas/). The API server charges objects when it lets them in;
// here, what is gone is taken off again.
package resourcequota

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	quota "k8s.io/apiserver/pkg/quota/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	"quintet.dev/quintet/components/controllers/runner"
	"quintet.dev/quintet/internal/quotas"
)

// Controller writes the status of quotas.
type Controller struct {
	env      runner.Env
	period   time.Duration
	quotas   corelisters.ResourceQuotaLister
	pods     corelisters.PodLister
	services corelisters.ServiceLister
	claims   corelisters.PersistentVolumeClaimLister
	devices  resourcelisters.ResourceClaimLister
	classes  resourcelisters.DeviceClassLister
	objects  metadata.Interface
	mapper   meta.RESTMapper
	loop     *runner.Loop[string]
	// late raises what was counted before a new pod was seen. It never lowers: of pods that were made at once, and
	// charged by the API server, not all may have been seen.
	late   *runner.Loop[string]
	synced []cache.InformerSynced
}

// New returns the controller, which recalculates all quotas every period. The client objects must have the controller's
// identity, and mapper know the served resources. It starts with Run.
func New(env runner.Env, objects metadata.Interface, mapper meta.RESTMapper,
	period time.Duration) (*Controller, error) {
	core, dynamic := env.Informers.Core().V1(), env.Informers.Resource().V1()
	c := &Controller{
		env: env, period: period, quotas: core.ResourceQuotas().Lister(), pods: core.Pods().Lister(),
		services: core.Services().Lister(),
		claims:   core.PersistentVolumeClaims().Lister(), devices: dynamic.ResourceClaims().Lister(),
		classes: dynamic.DeviceClasses().Lister(), objects: objects, mapper: mapper,
		synced: []cache.InformerSynced{core.ResourceQuotas().Informer().HasSynced},
	}
	c.loop = runner.NewLoop("resourcequota_primary", env,
		func(ctx context.Context, key string) error { return c.reconcile(ctx, key, false) })
	c.late = runner.NewLoop("resourcequota_late", env,
		func(ctx context.Context, key string) error { return c.reconcile(ctx, key, true) })
	for _, informer := range []cache.SharedIndexInformer{
		core.ResourceQuotas().Informer(), core.Pods().Informer(), core.Services().Informer(),
		core.PersistentVolumeClaims().Informer(),
		dynamic.ResourceClaims().Informer(), dynamic.DeviceClasses().Informer(),
	} {
		c.late.Needs(informer)
	}
	err := errors.Join(
		c.loop.Watch(core.ResourceQuotas().Informer(), runner.Handle(func(old, new *v1.ResourceQuota) {
			if new != nil && (old == nil || !equality.Semantic.DeepEqual(old.Spec, new.Spec)) {
				c.loop.Add(runner.Key(new))
			}
		})),
		c.loop.Watch(core.Pods().Informer(), runner.Handle(func(old, new *v1.Pod) {
			if old == nil {
				c.wake(c.late, new.Namespace)
			} else if new == nil || terminating(old) != terminating(new) || c.differs(v1.Resource("pods"), old, new) {
				c.wake(c.loop, old.Namespace)
			}
		})),
		c.loop.Watch(core.Services().Informer(), runner.Handle(func(old, new *v1.Service) {
			if old != nil && (new == nil || c.differs(v1.Resource("services"), old, new)) {
				c.wake(c.loop, old.Namespace)
			}
		})),
		c.loop.Watch(core.PersistentVolumeClaims().Informer(), runner.Handle(func(old, new *v1.PersistentVolumeClaim) {
			if old != nil && (new == nil || c.differs(v1.Resource("persistentvolumeclaims"), old, new) ||
				!slices.Equal(quotas.AttributesClasses(old), quotas.AttributesClasses(new))) {
				c.wake(c.loop, old.Namespace)
			}
		})),
		c.loop.Watch(dynamic.ResourceClaims().Informer(), gone[resourcev1.ResourceClaim](c)),
		c.loop.Watch(core.ConfigMaps().Informer(), gone[v1.ConfigMap](c)),
		c.loop.Watch(core.Secrets().Informer(), gone[v1.Secret](c)),
		c.loop.Watch(core.ServiceAccounts().Informer(), gone[v1.ServiceAccount](c)),
	)
	return c, err
}

// differs tells that an object uses more or less than it did. Other changes are no reason to count: of objects that
// were made at once not all may have been seen, and what they were charged would be given out again.
func (c *Controller) differs(kind schema.GroupResource, old, new runtime.Object) bool {
	now := c.env.Clock.Now()
	return !quota.Equals(quotas.Usage(kind, old, c, now), quotas.Usage(kind, new, c, now))
}

// terminating tells pods that end at a time that is known: quotas may be about these alone, or about all others.
func terminating(pod *v1.Pod) bool { return pod.Spec.ActiveDeadlineSeconds != nil }

// gone enqueues the quotas of a namespace when an object of it is deleted.
func gone[T any, P interface {
	*T
	metav1.Object
}](c *Controller) cache.ResourceEventHandler {
	return runner.Handle(func(old, new *T) {
		if new == nil {
			c.wake(c.loop, P(old).GetNamespace())
		}
	})
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	var refresh sync.WaitGroup
	refresh.Go(func() {
		if cache.WaitForCacheSync(ctx.Done(), c.synced...) {
			runner.Every(ctx, c.env.Clock, c.period, func(context.Context) { c.wake(c.loop, metav1.NamespaceAll) })
		}
	})
	refresh.Go(func() { _ = c.late.Run(ctx) })
	err := c.loop.Run(ctx)
	refresh.Wait()
	return err
}

func (c *Controller) wake(loop *runner.Loop[string], namespace string) {
	all, err := c.quotas.ResourceQuotas(namespace).List(labels.Everything())
	if err != nil {
		return
	}
	for _, q := range all {
		loop.Add(runner.Key(q))
	}
}

func (c *Controller) reconcile(ctx context.Context, key string, raise bool) error {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return err
	}
	q, err := c.quotas.ResourceQuotas(namespace).Get(name)
	if err != nil {
		return runner.IgnoreGone(err)
	}
	if q.DeletionTimestamp != nil {
		return nil
	}
	o, counting := c.observe(ctx, q)
	loop := c.loop
	if raise {
		loop = c.late
	}
	loop.Looked(key, o.size())
	status := decide(o, c.env.Clock.Now())
	if raise {
		status.Used = quota.Max(status.Used, quota.Mask(q.Status.Used, quota.ResourceNames(status.Used)))
	}
	if !equality.Semantic.DeepEqual(q.Status, status) {
		changed := q.DeepCopy()
		changed.Status = status
		if _, err := c.env.Client.CoreV1().ResourceQuotas(namespace).UpdateStatus(ctx, changed,
			metav1.UpdateOptions{}); runner.IgnoreGone(err) != nil {
			return fmt.Errorf("status of quota %s: %w", key, err)
		}
	}
	return counting // what could be counted is written all the same
}

func (c *Controller) observe(ctx context.Context, q *v1.ResourceQuota) (observed, error) {
	o := observed{quota: q, objects: map[schema.GroupResource][]runtime.Object{},
		counts: map[schema.GroupResource]int64{}, cluster: c}
	need, scoped := needs(q.Spec.Hard), len(quotas.Scopes(q)) > 0
	var errs []error
	if need.pods || scoped {
		pods, err := c.pods.Pods(q.Namespace).List(labels.Everything())
		o.objects[v1.Resource("pods")], errs = objectsOf(pods), append(errs, err)
	}
	if need.services && !scoped {
		services, err := c.services.Services(q.Namespace).List(labels.Everything())
		o.objects[v1.Resource("services")], errs = objectsOf(services), append(errs, err)
	}
	if need.claims || scoped {
		claims, err := c.claims.PersistentVolumeClaims(q.Namespace).List(labels.Everything())
		o.objects[v1.Resource("persistentvolumeclaims")], errs = objectsOf(claims), append(errs, err)
	}
	if need.devices && !scoped {
		claims, err := c.devices.ResourceClaims(q.Namespace).List(labels.Everything())
		o.objects[resourcev1.Resource("resourceclaims")], errs = objectsOf(claims), append(errs, err)
	}
	for name := range q.Spec.Hard {
		kind, number := quotas.Counted(name)
		if _, known := o.counts[kind]; !number || known || scoped || quotas.Ignored(kind) {
			continue
		}
		n, err := c.count(ctx, q.Namespace, kind)
		if err != nil {
			errs = append(errs, fmt.Errorf("count %s: %w", kind, err))
			continue
		}
		o.counts[kind] = n
	}
	return o, errors.Join(errs...)
}

func objectsOf[T runtime.Object](list []T) []runtime.Object {
	out := make([]runtime.Object, len(list))
	for i := range list {
		out[i] = list[i]
	}
	return out
}

// ResourceClaims implements quotas.Cluster.
func (c *Controller) ResourceClaims(namespace string) []*resourcev1.ResourceClaim {
	list, err := c.devices.ResourceClaims(namespace).List(labels.Everything())
	if err != nil {
		return nil
	}
	return list
}

// DeviceClass implements quotas.Cluster.
func (c *Controller) DeviceClass(name string) *resourcev1.DeviceClass {
	class, err := c.classes.Get(name)
	if err != nil {
		return nil
	}
	return class
}

// Pod implements quotas.Cluster.
func (c *Controller) Pod(namespace, name string) *v1.Pod {
	pod, err := c.pods.Pods(namespace).Get(name)
	if err != nil {
		return nil
	}
	return pod
}

// count gets the number from the API server, which returns it without the objects.
func (c *Controller) count(ctx context.Context, namespace string, kind schema.GroupResource) (int64, error) {
	resource, err := c.mapper.ResourceFor(kind.WithVersion(""))
	if err != nil {
		return 0, err
	}
	page, err := c.objects.Resource(resource).Namespace(namespace).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return 0, err
	}
	n := int64(len(page.Items))
	if page.RemainingItemCount != nil {
		n += *page.RemainingItemCount
	}
	return n, nil
}
