// Package replicaset keeps the number of pods of each ReplicaSet at its replicas
// (https://kubernetes.io/docs/concepts/workloads/controllers/replicaset/), and each ReplicationController, which is the
// same in an older form.
package replicaset

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	apps "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	"quintet.dev/quintet/components/controllers/consistency"
	"quintet.dev/quintet/components/controllers/expectations"
	"quintet.dev/quintet/components/controllers/owned"
	"quintet.dev/quintet/components/controllers/pods"
	"quintet.dev/quintet/components/controllers/runner"
)

// Controller reconciles ReplicaSets, or ReplicationControllers.
type Controller struct {
	env     runner.Env
	sets    form
	pods    *pods.Index
	pending *expectations.Tracker
	writes  *consistency.Writes
	ages    prometheus.Observer // of deleted pods, as ratios to the youngest
	loop    *runner.Loop[string]
}

// New makes the controller of ReplicaSets; it starts working with Run.
func New(env runner.Env) (*Controller, error) {
	return newController("replicaset", env, replicaSets{env, env.Informers.Apps().V1().ReplicaSets().Lister()})
}

// NewForControllers makes the controller of ReplicationControllers; it starts working with Run.
func NewForControllers(env runner.Env) (*Controller, error) {
	return newController("replicationmanager", env,
		replicationControllers{env, env.Informers.Core().V1().ReplicationControllers().Lister()})
}

func newController(name string, env runner.Env, sets form) (*Controller, error) {
	index, err := pods.NewIndex(env.Informers)
	if err != nil {
		return nil, err
	}
	all := env.Informers.Core().V1().Pods().Informer()
	c := &Controller{env: env, sets: sets, pods: index, pending: expectations.New(env.Clock),
		writes: consistency.New(env, "replicaset_controller", map[string]cache.SharedIndexInformer{
			sets.resource(): sets.informer(), consistency.Pods: all,
		}),
		ages: env.Histogram("replicaset_controller", "sorting_deletion_age_ratio",
			"Ages of ready pods that were chosen to be deleted, as ratios to that of the youngest.",
			prometheus.ExponentialBuckets(0.25, 2, 6)).WithLabelValues()}
	c.loop = runner.NewLoop(name, env, c.reconcile)
	if err := sets.watch(c.loop, c.setChanged); err != nil {
		return nil, err
	}
	if err := c.loop.Watch(all, runner.Handle(c.podChanged)); err != nil {
		return nil, err
	}
	return c, nil
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) error { return c.loop.Run(ctx) }

func (c *Controller) setChanged(old, new *apps.ReplicaSet) {
	key := runner.Key(runner.Last(old, new))
	if new == nil || (old != nil && old.UID != new.UID) {
		c.pending.Forget(key)
		c.writes.Forget(key, old.UID)
	}
	c.loop.Add(key)
}

func (c *Controller) podChanged(old, new *v1.Pod) {
	pod := runner.Last(old, new)
	ref := metav1.GetControllerOfNoCopy(pod)
	if set := c.owner(pod.Namespace, ref); set != nil {
		key := runner.Key(set)
		switch {
		case new == nil || new.DeletionTimestamp != nil:
			c.pending.DeletionObserved(key, pod.UID)
		case old == nil:
			c.pending.CreationObserved(key)
		}
		c.loop.Add(key)
	}
	if old != nil && new != nil {
		if before := metav1.GetControllerOfNoCopy(old); before != nil && (ref == nil || before.UID != ref.UID) {
			if set := c.owner(old.Namespace, before); set != nil {
				c.loop.Add(runner.Key(set))
			}
		}
	}
	if ref == nil && new != nil {
		c.offer(old, new)
	}
}

// offer wakes the sets that may adopt the orphan.
func (c *Controller) offer(old, orphan *v1.Pod) {
	if orphan.DeletionTimestamp != nil {
		return
	}
	if old != nil && metav1.GetControllerOfNoCopy(old) == nil &&
		equality.Semantic.DeepEqual(old.Labels, orphan.Labels) {
		return
	}
	for _, set := range c.sets.selecting(orphan) {
		c.loop.Add(runner.Key(set))
	}
}

// owner finds the set that ref means: its name may have been given to another one since.
func (c *Controller) owner(namespace string, ref *metav1.OwnerReference) *apps.ReplicaSet {
	if ref == nil || ref.Kind != c.sets.kind().Kind {
		return nil
	}
	set, err := c.sets.get(namespace, ref.Name)
	if err != nil || set.UID != ref.UID {
		return nil
	}
	return set
}

func (c *Controller) reconcile(ctx context.Context, key string) error {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return err
	}
	if err := c.writes.Seen(key); err != nil {
		return err
	}
	set, err := c.sets.get(namespace, name)
	if apierrors.IsNotFound(err) {
		c.pending.Forget(key)
		c.writes.Forget(key, "")
		return nil
	}
	if err != nil {
		return err
	}
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil {
		c.env.Events.Eventf(set, v1.EventTypeWarning, "InvalidSelector", "The selector can't be used: %v", err)
		return nil // only an edit helps
	}
	expectationsMet := c.pending.Satisfied(key) // before the pods are read: what comes in between is then counted
	mine, err := c.claim(ctx, set, selector)
	if err != nil {
		return err
	}
	c.loop.Looked(key, len(mine))
	p := decide(observed{set: set, pods: mine, related: func() []*v1.Pod { return c.related(set) },
		expectationsMet: expectationsMet, now: c.env.Clock.Now()})
	failure := c.scale(ctx, key, set, p)
	next := p.status
	if expectationsMet && set.DeletionTimestamp == nil {
		next = withFailure(next, failure, p.create > 0, c.env.Clock.Now())
	}
	if err := c.writeStatus(ctx, set, next); err != nil {
		return err
	}
	if p.again > 0 {
		c.loop.AddAfter(key, p.again)
	}
	return failure
}

func (c *Controller) claim(ctx context.Context, set *apps.ReplicaSet, selector labels.Selector) ([]*v1.Pod, error) {
	candidates := append(c.pods.ControlledBy(set.UID), pods.Filter(c.pods.Orphans(set.Namespace), pods.Active)...)
	claimer := owned.Claimer[*v1.Pod]{
		Owner: set,
		Kind:  c.sets.kind(),
		Fresh: func(ctx context.Context) (metav1.Object, error) {
			return c.sets.live(ctx, set.Namespace, set.Name)
		},
		Patch: c.control().Patcher(runner.Key(set), set.UID),
	}
	return claimer.Claim(ctx, selector, candidates)
}

// related returns the active pods of all the sets of set's owner, as those of one Deployment share the nodes.
func (c *Controller) related(set *apps.ReplicaSet) []*v1.Pod {
	siblings := []*apps.ReplicaSet{set}
	if ref := metav1.GetControllerOfNoCopy(set); ref != nil {
		all, err := c.sets.list(set.Namespace)
		if err != nil {
			return nil
		}
		siblings = siblings[:0]
		for _, other := range all {
			if r := metav1.GetControllerOfNoCopy(other); r != nil && r.UID == ref.UID {
				siblings = append(siblings, other)
			}
		}
	}
	var related []*v1.Pod
	for _, sibling := range siblings {
		related = append(related, pods.Filter(c.pods.ControlledBy(sibling.UID), pods.Active)...)
	}
	return related
}

// writeStatus does nothing if the status is what it should be. It retries once on the newest version of the set.
func (c *Controller) writeStatus(ctx context.Context, set *apps.ReplicaSet, next apps.ReplicaSetStatus) error {
	if set.Generation == set.Status.ObservedGeneration && equality.Semantic.DeepEqual(set.Status, next) {
		return nil
	}
	changed := set.DeepCopy()
	changed.Status = next
	err := c.write(ctx, changed)
	if !apierrors.IsConflict(err) {
		return runner.IgnoreGone(err)
	}
	fresh, err := c.sets.live(ctx, set.Namespace, set.Name)
	if err != nil {
		return runner.IgnoreGone(err)
	}
	if fresh.UID != set.UID {
		return nil
	}
	fresh.Status = next
	if err := runner.IgnoreGone(c.write(ctx, fresh)); err != nil {
		return fmt.Errorf("update status of %s %s/%s: %w", c.sets.kind().Kind, set.Namespace, set.Name, err)
	}
	return nil
}

func (c *Controller) write(ctx context.Context, set *apps.ReplicaSet) error {
	version, err := c.sets.writeStatus(ctx, set)
	if err != nil {
		return err
	}
	c.writes.Wrote(runner.Key(set), set.UID, c.sets.resource(), version)
	return nil
}

// control creates and deletes pods.
func (c *Controller) control() pods.Control {
	return pods.Control{Client: c.env.Client, Events: c.env.Events, Pending: c.pending, Writes: c.writes}
}
