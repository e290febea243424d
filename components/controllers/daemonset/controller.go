// Package daemonset runs one pod on every node that suits
// (https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/).
package daemonset

import (
	"context"
	"errors"
	"fmt"

	apps "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	appslisters "k8s.io/client-go/listers/apps/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/controllers/consistency"
	"quintet.dev/quintet/components/controllers/expectations"
	"quintet.dev/quintet/components/controllers/history"
	"quintet.dev/quintet/components/controllers/memory"
	"quintet.dev/quintet/components/controllers/owned"
	"quintet.dev/quintet/components/controllers/pods"
	"quintet.dev/quintet/components/controllers/runner"
)

var kind = apps.SchemeGroupVersion.WithKind("DaemonSet")

const resource = "daemonsets"

// Controller reconciles DaemonSets.
type Controller struct {
	env     runner.Env
	sets    appslisters.DaemonSetLister
	nodes   corelisters.NodeLister
	pods    *pods.Index
	history history.Store
	pending *expectations.Tracker
	writes  *consistency.Writes
	retries memory.Memory[string, retry] // by node
	loop    *runner.Loop[string]
}

// New makes the controller; it starts working with Run.
func New(env runner.Env) (*Controller, error) {
	index, err := pods.NewIndex(env.Informers)
	if err != nil {
		return nil, err
	}
	sets, revisions, core := env.Informers.Apps().V1().DaemonSets(), env.Informers.Apps().V1().ControllerRevisions(),
		env.Informers.Core().V1()
	c := &Controller{
		env: env, sets: sets.Lister(), nodes: core.Nodes().Lister(), pods: index,
		history: history.Store{Client: env.Client, Lister: revisions.Lister()}, pending: expectations.New(env.Clock),
		writes: consistency.New(env, "daemonset_controller", map[string]cache.SharedIndexInformer{
			resource: sets.Informer(), consistency.Pods: core.Pods().Informer(),
		}),
	}
	c.loop = runner.NewLoop("daemonset", env, c.reconcile)
	c.loop.Needs(revisions.Informer())
	if err := c.loop.Watch(sets.Informer(), runner.Handle(func(old, new *apps.DaemonSet) {
		key := runner.Key(runner.Last(old, new))
		if new == nil {
			c.pending.Forget(key)
			c.retries.Forget(key)
			c.writes.Forget(key, old.UID)
		}
		c.loop.Add(key)
	})); err != nil {
		return nil, err
	}
	if err := c.loop.Watch(core.Nodes().Informer(), runner.Handle(c.nodeChanged)); err != nil {
		return nil, err
	}
	return c, c.loop.Watch(core.Pods().Informer(), runner.Handle(c.podChanged))
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) error { return c.loop.Run(ctx) }

func (c *Controller) nodeChanged(old, new *v1.Node) {
	if old != nil && new != nil && equality.Semantic.DeepEqual(old.Labels, new.Labels) &&
		equality.Semantic.DeepEqual(old.Spec, new.Spec) {
		return
	}
	all, err := c.sets.List(labels.Everything())
	if err != nil {
		return
	}
	for _, set := range all {
		c.loop.Add(runner.Key(set))
	}
}

func (c *Controller) podChanged(old, new *v1.Pod) {
	pod := runner.Last(old, new)
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil && new != nil {
		c.offer(new)
		return
	}
	if ref == nil || ref.Kind != kind.Kind {
		return
	}
	set, err := c.sets.DaemonSets(pod.Namespace).Get(ref.Name)
	if err != nil || set.UID != ref.UID {
		return
	}
	key := runner.Key(set)
	switch {
	case new == nil || new.DeletionTimestamp != nil:
		c.pending.DeletionObserved(key, pod.UID)
	case old == nil:
		c.pending.CreationObserved(key)
	}
	c.loop.Add(key)
}

// offer wakes the sets that may adopt the orphan.
func (c *Controller) offer(orphan *v1.Pod) {
	sets, err := c.sets.GetPodDaemonSets(orphan)
	if err != nil {
		return // no DaemonSet selects it
	}
	for _, set := range sets {
		c.loop.Add(runner.Key(set))
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
	set, err := c.sets.DaemonSets(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		c.pending.Forget(key)
		c.writes.Forget(key, "")
		return nil
	}
	if err != nil {
		return err
	}
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil || selector.Empty() {
		c.env.Events.Event(set, v1.EventTypeWarning, "SelectingAll",
			"This daemon set is selecting all pods. A non-empty selector is required.")
		return nil
	}
	if set.DeletionTimestamp != nil {
		return nil
	}
	hash, revisions, err := c.revise(ctx, set, selector)
	if err != nil {
		return fmt.Errorf("history of daemon set %s: %w", key, err)
	}
	o := observed{set: set, hash: hash, retries: c.retries.Of(key), expectationsMet: c.pending.Satisfied(key),
		now: c.env.Clock.Now()}
	if o.nodes, err = c.nodes.List(labels.Everything()); err != nil {
		return err
	}
	if o.pods, err = c.claim(ctx, set, selector); err != nil {
		return err
	}
	p := decide(o)
	c.retries.Add(key, p.retries, func(_ string, r retry) bool { return o.now.Sub(r.at) > 2*longestRetry })
	if err := c.apply(ctx, key, set, hash, p); err != nil {
		return err
	}
	if p.again > 0 {
		c.loop.AddAfter(key, p.again)
	}
	return c.prune(ctx, set, hash, o.pods, revisions)
}

// revise sees to it that the history ends with the current template, and returns the hash that marks its pods.
func (c *Controller) revise(ctx context.Context, set *apps.DaemonSet,
	selector labels.Selector) (string, []*apps.ControllerRevision, error) {
	revisions, err := c.history.Of(ctx, set, kind, selector,
		func(ctx context.Context) (metav1.Object, error) { return c.fresh(ctx, set) })
	if err != nil {
		return "", nil, err
	}
	data, err := history.Data(&set.Spec.Template)
	if err != nil {
		return "", nil, err
	}
	current := history.Find(revisions, data)
	if current != nil {
		if latest := revisions[len(revisions)-1]; latest.Name != current.Name {
			_, err = c.history.Renew(ctx, current, history.Next(revisions))
		}
		return current.Labels[apps.DefaultDaemonSetUniqueLabelKey], revisions, err
	}
	hash := pods.TemplateHash(&set.Spec.Template, set.Status.CollisionCount)
	made, err := c.history.Create(ctx,
		history.New(set, kind, set.Spec.Template.Labels, apps.DefaultDaemonSetUniqueLabelKey, hash, data,
			history.Next(revisions)))
	if errors.Is(err, history.ErrCollision) {
		changed := set.DeepCopy()
		changed.Status.CollisionCount = ptr.To(ptr.Deref(set.Status.CollisionCount, 0) + 1)
		if err := c.writeStatus(ctx, changed); err != nil {
			return "", nil, err
		}
	}
	if err != nil {
		return "", nil, err
	}
	return hash, append(revisions, made), nil
}

func (c *Controller) fresh(ctx context.Context, set *apps.DaemonSet) (metav1.Object, error) {
	return c.env.Client.AppsV1().DaemonSets(set.Namespace).Get(ctx, set.Name, metav1.GetOptions{})
}

func (c *Controller) claim(ctx context.Context, set *apps.DaemonSet, selector labels.Selector) ([]*v1.Pod, error) {
	claimer := owned.Claimer[*v1.Pod]{
		Owner: set, Kind: kind,
		Fresh: func(ctx context.Context) (metav1.Object, error) { return c.fresh(ctx, set) },
		Patch: c.control().Patcher(runner.Key(set), set.UID),
	}
	return claimer.Claim(ctx, selector, append(c.pods.ControlledBy(set.UID), c.pods.Orphans(set.Namespace)...))
}

// prune deletes old revisions that no pod is of, beyond the history limit.
func (c *Controller) prune(ctx context.Context, set *apps.DaemonSet, hash string, mine []*v1.Pod,
	revisions []*apps.ControllerRevision) error {
	hashes := map[string]bool{hash: true}
	for _, pod := range mine {
		hashes[pod.Labels[apps.DefaultDaemonSetUniqueLabelKey]] = true
	}
	inUse := map[string]bool{}
	for _, revision := range revisions {
		inUse[revision.Name] = hashes[revision.Labels[apps.DefaultDaemonSetUniqueLabelKey]]
	}
	return c.history.Delete(ctx, history.Excess(revisions, inUse, int(ptr.Deref(set.Spec.RevisionHistoryLimit, 10))))
}

// control creates and deletes pods.
func (c *Controller) control() pods.Control {
	return pods.Control{Client: c.env.Client, Events: c.env.Events, Pending: c.pending, Writes: c.writes}
}
