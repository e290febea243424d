// Package namespace empties namespaces that are being deleted, and then lets them go
// (https://kubernetes.io/docs/concepts/overview/working-with-objects/namespaces/).
package namespace

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/metadata"

	"quintet.dev/quintet/components/controllers/runner"
)

const (
	// settle gives every API server the time to learn that nothing more may be created in the namespace.
	settle = 100 * time.Millisecond
	// recheck is the delay before a namespace with remaining objects is processed again: no event reports their
	// deletion.
	recheck     = 250 * time.Millisecond
	slowRecheck = 5 * time.Second
	// eachRecheck is what each of many remaining objects adds to the delay: some ten times of what it takes to list it.
	eachRecheck = 100 * time.Microsecond
)

// Controller empties namespaces.
type Controller struct {
	env        runner.Env
	namespaces corelisters.NamespaceLister
	pods       corelisters.PodLister
	content    content
	period     time.Duration
	loop       *runner.Loop[string]
}

// New returns the controller; it starts with Run. resources and objects must have the controller's identity, and every
// namespace that is being deleted is looked at again after each period.
func New(env runner.Env, resources Discovery, objects metadata.Interface, period time.Duration) (*Controller, error) {
	core := env.Informers.Core().V1()
	c := &Controller{
		env:        env,
		namespaces: core.Namespaces().Lister(),
		pods:       core.Pods().Lister(),
		content:    content{discovery: resources, metadata: objects},
		period:     period,
	}
	c.loop = runner.NewLoop("namespace", env, c.reconcile)
	c.loop.Needs(core.Pods().Informer())
	err := c.loop.Watch(core.Namespaces().Informer(), runner.Handle(func(old, new *v1.Namespace) {
		if new != nil && new.DeletionTimestamp != nil &&
			(old == nil || old.DeletionTimestamp == nil || !equality.Semantic.DeepEqual(old.Spec, new.Spec)) {
			c.loop.AddAfter(new.Name, settle)
		}
	}))
	return c, err
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	var periodic sync.WaitGroup
	defer periodic.Wait()
	periodic.Go(func() { runner.Every(ctx, c.env.Clock, c.period, c.addTerminating) })
	return c.loop.Run(ctx)
}

// addTerminating enqueues every namespace that is being deleted.
func (c *Controller) addTerminating(context.Context) {
	all, err := c.namespaces.List(labels.Everything())
	if err != nil {
		return
	}
	for _, ns := range all {
		if ns.DeletionTimestamp != nil {
			c.loop.Add(ns.Name)
		}
	}
}

func (c *Controller) reconcile(ctx context.Context, name string) error {
	cached, err := c.namespaces.Get(name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	client := c.env.Client.CoreV1().Namespaces()
	ns, err := client.Get(ctx, cached.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if ns.DeletionTimestamp == nil || !slices.Contains(ns.Spec.Finalizers, v1.FinalizerKubernetes) {
		return nil
	}
	if ns.Status.Phase != v1.NamespaceTerminating {
		ns.Status.Phase = v1.NamespaceTerminating
		if ns, err = client.UpdateStatus(ctx, ns, metav1.UpdateOptions{}); err != nil {
			return runner.IgnoreGone(err)
		}
	}
	o, wait := c.content.remove(ctx, name, c.grace(name))
	if ns, err = c.report(ctx, ns, o); err != nil {
		return runner.IgnoreGone(err)
	}
	switch {
	case o.failed():
		return fmt.Errorf("namespace %s could not be emptied: %s", name,
			slices.Concat(o.discovery, o.parsing, o.deletion))
	case o.left():
		c.loop.AddAfter(name, next(wait, c.env.Clock.Since(ns.DeletionTimestamp.Time), o.objects()))
		return nil
	}
	ns.Spec.Finalizers = slices.DeleteFunc(ns.Spec.Finalizers,
		func(f v1.FinalizerName) bool { return f == v1.FinalizerKubernetes })
	_, err = client.Finalize(ctx, ns, metav1.UpdateOptions{})
	return runner.IgnoreGone(err)
}

// next backs off: objects that still remain wait for a finalizer to be removed. As each check lists all that remain, it
// waits in proportion to these.
func next(wait, age time.Duration, objects int) time.Duration {
	if age > wait+10*time.Second {
		return max(slowRecheck, time.Duration(objects)*eachRecheck)
	}
	return max(recheck, time.Duration(objects)*eachRecheck)
}

// report shows the outcome in the conditions.
func (c *Controller) report(ctx context.Context, ns *v1.Namespace, o *outcome) (*v1.Namespace, error) {
	changed := ns.DeepCopy()
	changed.Status.Conditions = conditions(ns.Status.Conditions, o, metav1.NewTime(c.env.Clock.Now()))
	if equality.Semantic.DeepEqual(ns.Status, changed.Status) {
		return ns, nil
	}
	return c.env.Client.CoreV1().Namespaces().UpdateStatus(ctx, changed, metav1.UpdateOptions{})
}

// grace tells how long a pod of the namespace may take to end.
func (c *Controller) grace(namespace string) func(string) time.Duration {
	return func(name string) time.Duration {
		pod, err := c.pods.Pods(namespace).Get(name)
		if err != nil || pod.DeletionGracePeriodSeconds == nil {
			return 0
		}
		return time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second
	}
}
