package devicetainteviction

import (
	"context"
	"fmt"

	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	metaac "k8s.io/client-go/applyconfigurations/meta/v1"
	resourceac "k8s.io/client-go/applyconfigurations/resource/v1beta2"

	"quintet.dev/quintet/components/controllers/runner"
)

// fieldManager owns the status of rules.
const fieldManager = "device-taint-eviction-controller"

// taints are those of a device: of its driver, in the newest generation of its pool, and of rules.
func (c *Controller) taints(driver, poolName, device string) []taint {
	var all []taint
	for _, d := range c.published(driver, poolName) {
		if d.Name != device {
			continue
		}
		for _, t := range d.Taints {
			all = append(all, taint{DeviceTaint: t})
		}
	}
	for _, rule := range c.allRules() {
		if matches(rule, driver, poolName, device) {
			all = append(all, ruleTaint(rule))
		}
	}
	return all
}

// published are the devices of a pool's newest generation.
func (c *Controller) published(driver, poolName string) []resourcev1.Device {
	objects, err := c.slices.ByIndex(byPool, pool(driver, poolName))
	if err != nil {
		return nil
	}
	var devices []resourcev1.Device
	newest := int64(-1)
	for _, object := range objects {
		slice, ok := object.(*resourcev1.ResourceSlice)
		if !ok || slice.Spec.Pool.Generation < newest {
			continue
		}
		if slice.Spec.Pool.Generation > newest {
			newest, devices = slice.Spec.Pool.Generation, nil
		}
		devices = append(devices, slice.Spec.Devices...)
	}
	return devices
}

func (c *Controller) allRules() []*resourcev1beta2.DeviceTaintRule {
	if c.rules == nil {
		return nil
	}
	all, err := c.rules.List(labels.Everything())
	if err != nil {
		return nil
	}
	return all
}

// eachClaim visits the claims that have devices.
func (c *Controller) eachClaim(visit func(*resourcev1.ResourceClaim)) {
	all, err := c.claims.List(labels.Everything())
	if err != nil {
		return
	}
	for _, claim := range all {
		if claim.Status.Allocation != nil {
			visit(claim)
		}
	}
}

// tellOf has the status of a rule written after a while, so that many evictions are one write.
func (c *Controller) tellOf(uid types.UID) {
	for _, rule := range c.allRules() {
		if rule.UID == uid {
			c.loop.AddAfter(key{name: rule.Name}, statusPeriod)
		}
	}
}

// syncRule writes the condition of a rule. What a rule without effect would do is told once.
func (c *Controller) syncRule(ctx context.Context, name string) error {
	rule, err := c.rules.Get(name)
	if err != nil {
		return runner.IgnoreGone(err)
	}
	old := meta.FindStatusCondition(rule.Status.Conditions, resourcev1beta2.DeviceTaintConditionEvictionInProgress)
	if old != nil && rule.Spec.Taint.Effect == resourcev1beta2.DeviceTaintEffectNone &&
		old.ObservedGeneration == rule.Generation {
		return nil
	}
	now := conditionOf(rule, c.count(rule))
	if old != nil {
		now.LastTransitionTime = old.LastTransitionTime
		if now == *old {
			return nil
		}
	}
	now.LastTransitionTime = metav1.NewTime(c.env.Clock.Now())
	condition := metaac.Condition().WithType(now.Type).WithStatus(now.Status).WithReason(now.Reason).
		WithMessage(now.Message).WithObservedGeneration(now.ObservedGeneration).
		WithLastTransitionTime(now.LastTransitionTime)
	_, err = c.env.Client.ResourceV1beta2().DeviceTaintRules().ApplyStatus(ctx,
		resourceac.DeviceTaintRule(rule.Name).WithUID(rule.UID).
			WithStatus(resourceac.DeviceTaintRuleStatus().WithConditions(condition)),
		metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	if err := runner.IgnoreGone(err); err != nil {
		return fmt.Errorf("add condition to DeviceTaintRule %s: %w", rule.Name, err)
	}
	return nil
}

// count finds out what a rule does, or would do if its effect was NoExecute.
func (c *Controller) count(rule *resourcev1beta2.DeviceTaintRule) counts {
	c.mu.Lock()
	n := counts{evicted: c.evicted[rule.UID]}
	c.mu.Unlock()
	effective := rule.DeepCopy()
	if rule.Spec.Taint.Effect == resourcev1beta2.DeviceTaintEffectNone {
		effective.Spec.Taint.Effect = resourcev1beta2.DeviceTaintEffectNoExecute
	}
	only := func(driver, pool, device string) []taint {
		if matches(effective, driver, pool, device) {
			return []taint{ruleTaint(effective)}
		}
		return nil
	}
	all, err := c.pods.List(labels.Everything())
	if err != nil {
		return n
	}
	namespaces := sets.New[string]()
	for _, pod := range all {
		if evictable(pod) && c.evictionOfPod(pod, only).leave {
			n.pods++
			namespaces.Insert(pod.Namespace)
		}
	}
	n.namespaces = namespaces.Len()
	n.published, n.assigned = c.selected(rule)
	return n
}

// selected counts the devices that a rule selects, in slices and in claims.
func (c *Controller) selected(rule *resourcev1beta2.DeviceTaintRule) (published, assigned int) {
	seen := sets.New[string]()
	for _, object := range c.slices.List() {
		slice, ok := object.(*resourcev1.ResourceSlice)
		if !ok || seen.Has(pool(slice.Spec.Driver, slice.Spec.Pool.Name)) {
			continue
		}
		seen.Insert(pool(slice.Spec.Driver, slice.Spec.Pool.Name))
		for _, d := range c.published(slice.Spec.Driver, slice.Spec.Pool.Name) {
			if matches(rule, slice.Spec.Driver, slice.Spec.Pool.Name, d.Name) {
				published++
			}
		}
	}
	c.eachClaim(func(claim *resourcev1.ResourceClaim) {
		for _, result := range claim.Status.Allocation.Devices.Results {
			if matches(rule, result.Driver, result.Pool, result.Device) {
				assigned++
			}
		}
	})
	return published, assigned
}
