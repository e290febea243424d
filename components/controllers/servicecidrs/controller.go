package servicecidrs

import (
	"context"
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	applynetworkingv1 "k8s.io/client-go/applyconfigurations/networking/v1"
	listers "k8s.io/client-go/listers/networking/v1"

	"quintet.dev/quintet/components/controllers/runner"
)

// manager is the field manager of the condition.
const manager = "service-cidr-controller"

// Controller keeps finalizer and condition of ServiceCIDRs.
type Controller struct {
	env       runner.Env
	ranges    listers.ServiceCIDRLister
	addresses listers.IPAddressLister
	loop      *runner.Loop[string]
}

// New makes the controller; it starts working with Run.
func New(env runner.Env) (*Controller, error) {
	ranges, addresses := env.Informers.Networking().V1().ServiceCIDRs(), env.Informers.Networking().V1().IPAddresses()
	c := &Controller{env: env, ranges: ranges.Lister(), addresses: addresses.Lister()}
	c.loop = runner.NewLoop("ipaddresses", env, c.reconcile)
	err := c.loop.Watch(ranges.Informer(), runner.Handle(func(old, new *networkingv1.ServiceCIDR) {
		r := runner.Last(old, new)
		c.loop.Add(r.Name)
		if old == nil || new == nil { // one that others waited for, or that they lean on
			c.each(func(all []*networkingv1.ServiceCIDR) []string { return overlapping(r, all) })
		}
	}))
	if err != nil {
		return nil, err
	}
	return c, c.loop.Watch(addresses.Informer(), runner.Handle(func(old, new *networkingv1.IPAddress) {
		if old == nil || new == nil {
			c.each(func(all []*networkingv1.ServiceCIDR) []string { return containing(runner.Last(old, new), all) })
		}
	}))
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) error { return c.loop.Run(ctx) }

// each reconciles the ranges that choose names out of all.
func (c *Controller) each(choose func([]*networkingv1.ServiceCIDR) []string) {
	all, err := c.ranges.List(labels.Everything())
	if err != nil {
		return // an informer's list fails of nothing
	}
	for _, name := range choose(all) {
		c.loop.Add(name)
	}
}

func (c *Controller) reconcile(ctx context.Context, name string) error {
	r, err := c.ranges.Get(name)
	if err != nil {
		return runner.IgnoreGone(err)
	}
	all, err := c.ranges.List(labels.Everything())
	if err != nil {
		return err
	}
	addresses, err := c.addresses.List(labels.Everything())
	if err != nil {
		return err
	}
	return c.apply(ctx, r, plan(r, all, addresses, c.env.Clock.Now()))
}

func (c *Controller) apply(ctx context.Context, r *networkingv1.ServiceCIDR, d decision) error {
	if d.again > 0 {
		c.loop.AddAfter(r.Name, d.again)
	}
	key := ""
	switch {
	case d.addFinalizer:
		key = "finalizers"
	case d.removeFinalizer:
		key = "$deleteFromPrimitiveList/finalizers"
	}
	if key != "" {
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": r.UID, key: []string{finalizer}}})
		if err != nil {
			return err
		}
		_, err = c.env.Client.NetworkingV1().ServiceCIDRs().Patch(ctx, r.Name, types.StrategicMergePatchType, patch,
			metav1.PatchOptions{})
		if err = runner.IgnoreGone(err); err != nil {
			return fmt.Errorf("finalizer of ServiceCIDR %s: %w", r.Name, err)
		}
	}
	if d.condition == nil {
		return nil
	}
	condition := applymetav1.Condition().
		WithType(d.condition.Type).
		WithStatus(d.condition.Status).
		WithReason(d.condition.Reason).
		WithMessage(d.condition.Message).
		WithLastTransitionTime(metav1.NewTime(c.env.Clock.Now()))
	status := applynetworkingv1.ServiceCIDR(r.Name).
		WithStatus(applynetworkingv1.ServiceCIDRStatus().WithConditions(condition))
	_, err := c.env.Client.NetworkingV1().ServiceCIDRs().ApplyStatus(ctx, status,
		metav1.ApplyOptions{FieldManager: manager, Force: true})
	if err = runner.IgnoreGone(err); err != nil {
		if d.condition.Status == metav1.ConditionTrue {
			c.env.Events.Event(r, v1.EventTypeWarning, "KubernetesServiceCIDRError",
				"The ServiceCIDR Status can not be set to Ready=True")
		}
		return fmt.Errorf("condition of ServiceCIDR %s: %w", r.Name, err)
	}
	return nil
}
