// Package statefulset runs pods with stable names and storage, in order
// (https://kubernetes.io/docs/concepts/workloads/controllers/statefulset/).
package statefulset

import (
	"context"
	"errors"
	"fmt"

	apps "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	appslisters "k8s.io/client-go/listers/apps/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/controllers/consistency"
	"quintet.dev/quintet/components/controllers/history"
	"quintet.dev/quintet/components/controllers/owned"
	"quintet.dev/quintet/components/controllers/pods"
	"quintet.dev/quintet/components/controllers/runner"
)

var kind = apps.SchemeGroupVersion.WithKind("StatefulSet")

const resource = "statefulsets"

// Controller reconciles StatefulSets. Their pods have names, so that no write can be doubled.
type Controller struct {
	env            runner.Env
	sets           appslisters.StatefulSetLister
	claims         corelisters.PersistentVolumeClaimLister
	pods           *pods.Index
	history        history.Store
	maxUnavailable bool
	writes         *consistency.Writes
	loop           *runner.Loop[string]
}

// New makes the controller; with maxUnavailable, sets may say how many pods are out of service at once. It starts
// working with Run.
func New(env runner.Env, maxUnavailable bool) (*Controller, error) {
	index, err := pods.NewIndex(env.Informers)
	if err != nil {
		return nil, err
	}
	api, core := env.Informers.Apps().V1(), env.Informers.Core().V1()
	sets, revisions, claims := api.StatefulSets(), api.ControllerRevisions(), core.PersistentVolumeClaims()
	c := &Controller{
		env: env, maxUnavailable: maxUnavailable, sets: sets.Lister(), claims: claims.Lister(), pods: index,
		history: history.Store{Client: env.Client, Lister: revisions.Lister()},
		writes: consistency.New(env, "statefulset_controller", map[string]cache.SharedIndexInformer{
			resource: sets.Informer(), consistency.Pods: core.Pods().Informer(), consistency.Claims: claims.Informer(),
		}),
	}
	if maxUnavailable {
		env.Collect(setMetrics{sets.Lister()})
	}
	c.loop = runner.NewLoop("statefulset", env, c.reconcile)
	c.loop.Needs(revisions.Informer())
	c.loop.Needs(claims.Informer())
	if err := c.loop.Watch(sets.Informer(), runner.Handle(func(old, new *apps.StatefulSet) {
		key := runner.Key(runner.Last(old, new))
		if new == nil {
			c.writes.Forget(key, old.UID)
		}
		c.loop.Add(key)
	})); err != nil {
		return nil, err
	}
	return c, c.loop.Watch(core.Pods().Informer(), runner.Handle(c.podChanged))
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) error { return c.loop.Run(ctx) }

func (c *Controller) podChanged(old, new *v1.Pod) {
	pod := runner.Last(old, new)
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil && new != nil {
		sets, err := c.sets.GetPodStatefulSets(pod)
		if err != nil {
			return // no StatefulSet selects it
		}
		for _, set := range sets {
			c.loop.Add(runner.Key(set))
		}
		return
	}
	if ref != nil && ref.Kind == kind.Kind {
		c.loop.Add(pod.Namespace + "/" + ref.Name)
	}
}

func (c *Controller) reconcile(ctx context.Context, key string) error {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return err
	}
	if err := c.writes.Seen(key); err != nil {
		return err
	}
	set, err := c.sets.StatefulSets(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		c.writes.Forget(key, "")
		return nil
	}
	if err != nil {
		return err
	}
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil {
		return nil // only an edit helps
	}
	mine, err := c.claim(ctx, set, selector)
	if err != nil {
		return err
	}
	current, update, revisions, err := c.revise(ctx, set, selector)
	if err != nil {
		return fmt.Errorf("history of stateful set %s: %w", key, err)
	}
	p := decide(observed{maxUnavailable: c.maxUnavailable, set: set, pods: mine,
		current: current.Name, update: update.Name, now: c.env.Clock.Now()})
	if err := c.apply(ctx, key, set, p,
		map[string]*apps.ControllerRevision{current.Name: current, update.Name: update}); err != nil {
		return err
	}
	if p.again > 0 {
		c.loop.AddAfter(key, p.again)
	}
	inUse := map[string]bool{current.Name: true, update.Name: true}
	for _, pod := range mine {
		inUse[pod.Labels[apps.StatefulSetRevisionLabel]] = true
	}
	return c.history.Delete(ctx, history.Excess(revisions, inUse, int(ptr.Deref(set.Spec.RevisionHistoryLimit, 10))))
}

func (c *Controller) claim(ctx context.Context, set *apps.StatefulSet, selector labels.Selector) ([]*v1.Pod, error) {
	candidates := c.pods.ControlledBy(set.UID)
	for _, orphan := range c.pods.Orphans(set.Namespace) {
		if ordinal(set, orphan) >= 0 {
			candidates = append(candidates, orphan)
		}
	}
	claimer := owned.Claimer[*v1.Pod]{
		Owner: set, Kind: kind,
		Fresh: func(ctx context.Context) (metav1.Object, error) { return c.fresh(ctx, set) },
		Patch: c.control().Patcher(runner.Key(set), set.UID),
	}
	return claimer.Claim(ctx, selector, candidates)
}

func (c *Controller) fresh(ctx context.Context, set *apps.StatefulSet) (metav1.Object, error) {
	return c.env.Client.AppsV1().StatefulSets(set.Namespace).Get(ctx, set.Name, metav1.GetOptions{})
}

// revise sees to it that the history ends with the current template, and returns the revisions the set comes from
// and goes to.
func (c *Controller) revise(ctx context.Context, set *apps.StatefulSet,
	selector labels.Selector) (current, update *apps.ControllerRevision, all []*apps.ControllerRevision, err error) {
	all, err = c.history.Of(ctx, set, kind, selector,
		func(ctx context.Context) (metav1.Object, error) { return c.fresh(ctx, set) })
	if err != nil {
		return nil, nil, nil, err
	}
	data, err := history.Data(&set.Spec.Template)
	if err != nil {
		return nil, nil, nil, err
	}
	switch update = history.Find(all, data); {
	case update == nil:
		hash := history.Hash(data, ptr.Deref(set.Status.CollisionCount, 0))
		update, err = c.history.Create(ctx, history.New(set, kind, set.Spec.Template.Labels, history.HashLabel, hash,
			data, history.Next(all)))
		if errors.Is(err, history.ErrCollision) {
			err = errors.Join(err, c.raiseCollisions(ctx, set))
		}
	case update.Name != all[len(all)-1].Name:
		update, err = c.history.Renew(ctx, update, history.Next(all))
	}
	if err != nil {
		return nil, nil, nil, err
	}
	current = update
	for _, revision := range all {
		if revision.Name == set.Status.CurrentRevision {
			current = revision
		}
	}
	return current, update, all, nil
}

func (c *Controller) raiseCollisions(ctx context.Context, set *apps.StatefulSet) error {
	changed := set.DeepCopy()
	changed.Status.CollisionCount = ptr.To(ptr.Deref(set.Status.CollisionCount, 0) + 1)
	return c.writeStatus(ctx, changed)
}

func (c *Controller) writeStatus(ctx context.Context, set *apps.StatefulSet) error {
	written, err := c.env.Client.AppsV1().StatefulSets(set.Namespace).UpdateStatus(ctx, set, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	c.wrote(set, resource, written.ResourceVersion)
	return nil
}

// wrote remembers a write for set.
func (c *Controller) wrote(set *apps.StatefulSet, resource, version string) {
	c.writes.Wrote(runner.Key(set), set.UID, resource, version)
}

// control patches pods.
func (c *Controller) control() pods.Control {
	return pods.Control{Client: c.env.Client, Events: c.env.Events, Writes: c.writes}
}
