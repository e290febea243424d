// Package deployment rolls ReplicaSets from one pod template to the next
// (https://kubernetes.io/docs/concepts/workloads/controllers/deployment/).
package deployment

import (
	"context"

	apps "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	appslisters "k8s.io/client-go/listers/apps/v1"
	"k8s.io/client-go/tools/cache"

	"quintet.dev/quintet/components/controllers/owned"
	"quintet.dev/quintet/components/controllers/pods"
	"quintet.dev/quintet/components/controllers/runner"
)

var kind = apps.SchemeGroupVersion.WithKind("Deployment")

// Controller reconciles Deployments.
type Controller struct {
	env         runner.Env
	deployments appslisters.DeploymentLister
	sets        appslisters.ReplicaSetLister
	pods        *pods.Index
	loop        *runner.Loop[string]
}

// New makes the controller; it starts working with Run.
func New(env runner.Env) (*Controller, error) {
	index, err := pods.NewIndex(env.Informers)
	if err != nil {
		return nil, err
	}
	api := env.Informers.Apps().V1()
	c := &Controller{env: env, deployments: api.Deployments().Lister(), sets: api.ReplicaSets().Lister(), pods: index}
	c.loop = runner.NewLoop("deployment", env, c.reconcile)
	if err := c.loop.Watch(api.Deployments().Informer(), runner.Handle(func(old, new *apps.Deployment) {
		c.loop.Add(runner.Key(runner.Last(old, new)))
	})); err != nil {
		return nil, err
	}
	if err := c.loop.Watch(api.ReplicaSets().Informer(), runner.Handle(c.setChanged)); err != nil {
		return nil, err
	}
	if err := c.loop.Watch(env.Informers.Core().V1().Pods().Informer(), runner.Handle(c.podChanged)); err != nil {
		return nil, err
	}
	return c, nil
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) error { return c.loop.Run(ctx) }

func (c *Controller) setChanged(old, new *apps.ReplicaSet) {
	for _, set := range []*apps.ReplicaSet{old, new} {
		if set == nil {
			continue
		}
		if d := c.owner(set); d != nil {
			c.loop.Add(runner.Key(d))
		}
	}
	if new == nil || new.DeletionTimestamp != nil || metav1.GetControllerOfNoCopy(new) != nil {
		return
	}
	if old != nil && metav1.GetControllerOfNoCopy(old) == nil && equality.Semantic.DeepEqual(old.Labels, new.Labels) {
		return
	}
	candidates, err := c.deployments.Deployments(new.Namespace).List(labels.Everything())
	if err != nil {
		return
	}
	for _, d := range candidates {
		selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
		if err == nil && !selector.Empty() && selector.Matches(labels.Set(new.Labels)) {
			c.loop.Add(runner.Key(d))
		}
	}
}

// podChanged matters to Recreate only, which waits for the last old pod to end.
func (c *Controller) podChanged(old, new *v1.Pod) {
	if old == nil || (new != nil && pods.Ended(old) == pods.Ended(new)) {
		return
	}
	ref := metav1.GetControllerOfNoCopy(old)
	if ref == nil || ref.Kind != "ReplicaSet" {
		return
	}
	set, err := c.sets.ReplicaSets(old.Namespace).Get(ref.Name)
	if err != nil || set.UID != ref.UID {
		return
	}
	if d := c.owner(set); d != nil && d.Spec.Strategy.Type == apps.RecreateDeploymentStrategyType {
		c.loop.Add(runner.Key(d))
	}
}

func (c *Controller) owner(set *apps.ReplicaSet) *apps.Deployment {
	ref := metav1.GetControllerOfNoCopy(set)
	if ref == nil || ref.Kind != kind.Kind {
		return nil
	}
	d, err := c.deployments.Deployments(set.Namespace).Get(ref.Name)
	if err != nil || d.UID != ref.UID {
		return nil
	}
	return d
}

func (c *Controller) reconcile(ctx context.Context, key string) error {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return err
	}
	d, err := c.deployments.Deployments(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if d.Spec.Selector == nil || equality.Semantic.DeepEqual(d.Spec.Selector, &metav1.LabelSelector{}) {
		c.env.Events.Event(d, v1.EventTypeWarning, "SelectingAll",
			"This deployment is selecting all pods. A non-empty selector is required.")
		return nil
	}
	if done, err := c.rollBack(ctx, d); done || err != nil {
		return err
	}
	sets, err := c.claim(ctx, d)
	if err != nil {
		return err
	}
	p := decide(observed{deployment: d, sets: sets, running: c.running(d, sets), now: c.env.Clock.Now()})
	if err := c.apply(ctx, d, p); err != nil {
		return err
	}
	if p.again > 0 {
		c.loop.AddAfter(key, p.again)
	}
	return nil
}

func (c *Controller) claim(ctx context.Context, d *apps.Deployment) ([]*apps.ReplicaSet, error) {
	selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
	if err != nil {
		return nil, err
	}
	all, err := c.sets.ReplicaSets(d.Namespace).List(labels.Everything())
	if err != nil {
		return nil, err
	}
	claimer := owned.Claimer[*apps.ReplicaSet]{
		Owner: d,
		Kind:  kind,
		Fresh: func(ctx context.Context) (metav1.Object, error) {
			return c.env.Client.AppsV1().Deployments(d.Namespace).Get(ctx, d.Name, metav1.GetOptions{})
		},
		Patch: func(ctx context.Context, set *apps.ReplicaSet, patch []byte) error {
			_, err := c.env.Client.AppsV1().ReplicaSets(set.Namespace).Patch(ctx, set.Name,
				types.StrategicMergePatchType, patch, metav1.PatchOptions{})
			return err
		},
	}
	return claimer.Claim(ctx, selector, all)
}

func (c *Controller) running(d *apps.Deployment, sets []*apps.ReplicaSet) map[types.UID]int {
	if d.Spec.Strategy.Type != apps.RecreateDeploymentStrategyType {
		return nil
	}
	running := map[types.UID]int{}
	for _, set := range sets {
		for _, pod := range c.pods.ControlledBy(set.UID) {
			if !pods.Ended(pod) {
				running[set.UID]++
			}
		}
	}
	return running
}
