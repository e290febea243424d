// Package disruption counts how many pods may be evicted under each PodDisruptionBudget
// (https://kubernetes.io/docs/concepts/workloads/pods/disruptions/).
package disruption

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	appslisters "k8s.io/client-go/listers/apps/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	policylisters "k8s.io/client-go/listers/policy/v1"
	"k8s.io/client-go/scale"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/apps/poddisruptionbudget"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/controllers/runner"
)

// Controller keeps the status of budgets.
type Controller struct {
	env     runner.Env
	scales  scale.ScalesGetter
	mapper  meta.RESTMapper
	budgets policylisters.PodDisruptionBudgetLister
	pods    corelisters.PodLister
	sets    appslisters.ReplicaSetLister
	loop    *runner.Loop[string]
	// stale holds the pods whose DisruptionTarget condition may be outdated.
	stale *runner.Loop[string]
}

// New returns the controller; scales and mapper, with the controller's identity, return the size of owners of any kind.
// It starts with Run.
func New(env runner.Env, scales scale.ScalesGetter, mapper meta.RESTMapper) (*Controller, error) {
	budgets, all, sets := env.Informers.Policy().V1().PodDisruptionBudgets(), env.Informers.Core().V1().Pods(),
		env.Informers.Apps().V1().ReplicaSets()
	c := &Controller{env: env, scales: scales, mapper: mapper, budgets: budgets.Lister(), pods: all.Lister(),
		sets: sets.Lister()}
	c.loop = runner.NewLoop("disruption", env, c.reconcile)
	c.loop.Needs(sets.Informer())
	c.stale = runner.NewLoop("stale_pod_disruption", env, c.clearStale)
	c.stale.Needs(all.Informer())
	if err := c.loop.Watch(budgets.Informer(), runner.Handle(func(old, new *policy.PodDisruptionBudget) {
		c.loop.Add(runner.Key(runner.Last(old, new)))
	})); err != nil {
		return nil, err
	}
	return c, c.loop.Watch(all.Informer(), runner.Handle(c.podChanged))
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.loop.Run(ctx) })
	group.Go(func() error { return c.stale.Run(ctx) })
	return group.Wait()
}

func (c *Controller) podChanged(old, new *v1.Pod) {
	if new != nil {
		if wait, marked := untilStale(new, c.env.Clock.Now()); marked {
			c.stale.AddAfter(runner.Key(new), wait)
		}
	}
	for _, pod := range []*v1.Pod{old, new} {
		if pod == nil {
			continue
		}
		budgets, err := c.budgets.GetPodPodDisruptionBudgets(pod)
		if err != nil {
			continue // none has the pod
		}
		if pod == new && len(budgets) > 1 {
			c.env.Events.Eventf(pod, v1.EventTypeWarning, "MultiplePodDisruptionBudgets",
				"Pod %q/%q matches multiple PodDisruptionBudgets.  Chose %q arbitrarily.", pod.Namespace, pod.Name,
				budgets[0].Name)
		}
		for _, budget := range budgets {
			c.loop.Add(runner.Key(budget))
		}
	}
}

func (c *Controller) reconcile(ctx context.Context, key string) error {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return err
	}
	budget, err := c.budgets.PodDisruptionBudgets(namespace).Get(name)
	if err != nil {
		return runner.IgnoreGone(err)
	}
	p, err := c.plan(ctx, budget)
	if err != nil {
		// No eviction is allowed while the expected number of pods is unknown.
		c.env.Events.Eventf(budget, v1.EventTypeWarning, "CalculateExpectedPodCountFailed",
			"Failed to calculate the number of expected pods: %v", err)
		return fmt.Errorf("disruption budget %s: %w", key, firstOf(c.failSafe(ctx, budget, err), err))
	}
	for _, late := range p.late {
		if pod, err := c.pods.Pods(namespace).Get(late); err == nil {
			c.env.Events.Eventf(pod, v1.EventTypeWarning, "NotDeleted",
				"Pod was expected by PDB %s to be deleted but it wasn't", key)
		}
	}
	changed := budget.DeepCopy()
	changed.Status = p.status
	poddisruptionbudget.UpdateDisruptionAllowedCondition(changed)
	if err := c.write(ctx, budget, changed); err != nil {
		return err
	}
	if p.again > 0 {
		c.loop.AddAfter(key, p.again)
	}
	return nil
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *Controller) plan(ctx context.Context, budget *policy.PodDisruptionBudget) (plan, error) {
	selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
	if err != nil {
		return plan{}, err
	}
	o := observed{budget: budget, now: c.env.Clock.Now()}
	if o.pods, err = c.pods.Pods(budget.Namespace).List(selector); err != nil {
		return plan{}, err
	}
	if len(o.pods) == 0 {
		c.env.Events.Event(budget, v1.EventTypeNormal, "NoPods", "No matching pods found")
	}
	if needsScale(budget) {
		if o.scale, err = c.scale(ctx, o.pods); err != nil {
			return plan{}, err
		}
		if slices.ContainsFunc(o.pods, unmanaged) {
			c.env.Events.Eventf(budget, v1.EventTypeWarning, "UnmanagedPods", unmanagedMessage, budget.Spec.Selector)
		}
	}
	return decide(o)
}

// unmanagedMessage is upstream's, with the budget's selector as its argument.
const unmanagedMessage = "Pods selected by this PodDisruptionBudget (selector: %v) were found to be unmanaged. As a " +
	"result, the status of the PDB cannot be calculated correctly, which may result in undefined behavior. To account " +
	"for these pods please set \".spec.minAvailable\" field of the PDB to an integer value."

func unmanaged(pod *v1.Pod) bool { return metav1.GetControllerOfNoCopy(pod) == nil }

// scale adds up how many pods the owners of the pods want.
func (c *Controller) scale(ctx context.Context, all []*v1.Pod) (int32, error) {
	sizes := map[types.UID]int32{}
	var sum int32
	for _, pod := range all {
		ref := metav1.GetControllerOf(pod)
		if ref == nil {
			continue // without a controller it adds to no expected count
		}
		if _, known := sizes[ref.UID]; known {
			continue
		}
		sizes[ref.UID] = 0
		owner, size, err := c.size(ctx, pod.Namespace, ref)
		if err != nil {
			return 0, err
		}
		if owner != ref.UID {
			if _, known := sizes[owner]; known {
				continue
			}
			sizes[owner] = size
		}
		sum += size
	}
	return sum, nil
}

// size returns the size that the last owner in the chain wants: a Deployment's counts, not that of its sets.
func (c *Controller) size(ctx context.Context, namespace string, ref *metav1.OwnerReference) (types.UID, int32, error) {
	if ref.Kind == "ReplicaSet" {
		set, err := c.sets.ReplicaSets(namespace).Get(ref.Name)
		if err == nil && set.UID == ref.UID {
			if above := metav1.GetControllerOf(set); above != nil {
				return c.size(ctx, namespace, above)
			}
			return set.UID, ptr.Deref(set.Spec.Replicas, 1), nil
		}
	}
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return "", 0, err
	}
	mapping, err := c.mapper.RESTMapping(gv.WithKind(ref.Kind).GroupKind(), gv.Version)
	if err != nil {
		return "", 0, err
	}
	found, err := c.scales.Scales(namespace).Get(ctx, mapping.Resource.GroupResource(), ref.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", 0, fmt.Errorf("%s %s has no scale: %w", ref.Kind, ref.Name, err)
	}
	if err != nil {
		return "", 0, err
	}
	return ref.UID, found.Spec.Replicas, nil
}

// clearStale takes the DisruptionTarget condition of a pod back if the deletion that it announced has not come.
func (c *Controller) clearStale(ctx context.Context, key string) error {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return err
	}
	pod, err := c.pods.Pods(namespace).Get(name)
	if err != nil {
		return runner.IgnoreGone(err)
	}
	wait, marked := untilStale(pod, c.env.Clock.Now())
	switch {
	case !marked:
		return nil
	case wait > 0:
		c.stale.AddAfter(key, wait)
		return nil
	}
	_, err = c.env.Client.CoreV1().Pods(namespace).UpdateStatus(ctx, withoutDisruption(pod, c.env.Clock.Now()),
		metav1.UpdateOptions{})
	return runner.IgnoreGone(err)
}

// failSafe allows no eviction.
func (c *Controller) failSafe(ctx context.Context, budget *policy.PodDisruptionBudget, cause error) error {
	changed := budget.DeepCopy()
	changed.Status.DisruptionsAllowed = 0
	meta.SetStatusCondition(&changed.Status.Conditions, metav1.Condition{
		Type: policy.DisruptionAllowedCondition, Status: metav1.ConditionFalse, Reason: policy.SyncFailedReason,
		Message: cause.Error(), ObservedGeneration: budget.Generation,
	})
	return c.write(ctx, budget, changed)
}

func (c *Controller) write(ctx context.Context, budget, changed *policy.PodDisruptionBudget) error {
	if equality.Semantic.DeepEqual(budget.Status, changed.Status) {
		return nil
	}
	_, err := c.env.Client.PolicyV1().PodDisruptionBudgets(budget.Namespace).UpdateStatus(ctx, changed,
		metav1.UpdateOptions{})
	return runner.IgnoreGone(err)
}
