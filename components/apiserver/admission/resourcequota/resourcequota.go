// Package resourcequota keeps the objects of a namespace within its quotas. What an object uses is added to the quota's
// status in the same moment in which it is admitted, so that requests in a race can't exceed it together; the quota
// controller takes away what is no longer used (https://kubernetes.io/docs/concepts/policy/resource-quotas/).
package resourcequota

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/apiserver/objects"
	"quintet.dev/quintet/internal/quotas"
)

// Name is the plug-in's.
const Name = "ResourceQuota"

var kind = corev1.Resource("resourcequotas")

// Plugin implements the admission.
type Plugin struct {
	*admission.Handler
	objects objects.Store
	clock   clock.PassiveClock
	limited limited
	batcher batcher
}

var _ admission.ValidationInterface = &Plugin{}

// New returns the plug-in with its configuration, which may be empty. It writes to the status of quotas.
func New(store objects.Store, clock clock.PassiveClock, file []byte) (*Plugin, error) {
	limited, err := readLimited(file)
	return &Plugin{Handler: admission.NewHandler(admission.Create, admission.Update), objects: store, clock: clock,
		limited: limited}, err
}

// Validate charges the object to all quotas that count it, or to none.
func (p *Plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetNamespace() == "" || a.GetResource().GroupResource() == corev1.Resource("namespaces") || !counted(a) {
		return nil
	}
	list, err := objects.ListAs[*corev1.ResourceQuota](p.objects.List(ctx, kind, a.GetNamespace()))
	if err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return admission.NewForbidden(a, fmt.Errorf("reading quotas: %w", err))
	}
	if len(list) == 0 && len(p.limited) == 0 {
		return nil
	}
	about, err := p.about(ctx, a, list)
	if err != nil {
		return admission.NewForbidden(a, err)
	}
	u := p.use(ctx, a)
	charges, more := chargesOf(a, u, about)
	if !more {
		return nil
	}
	if err := p.limited.check(a, u, about, list); err != nil {
		return err
	}
	if err := p.fit(ctx, a, charges); err != nil {
		return err
	}
	for i := range charges {
		charge := p.charge
		if a.IsDryRun() {
			charge = p.checkRoom
		}
		if err := charge(ctx, a, &charges[i]); err != nil {
			p.refund(ctx, a, charges[:i])
			return err
		}
	}
	return nil
}

// use is what the object of a request uses, and what it used before.
type use struct{ now, before corev1.ResourceList }

func (p *Plugin) use(ctx context.Context, a admission.Attributes) use {
	of, cluster, now := a.GetResource().GroupResource(), stored{ctx, p.objects}, p.clock.Now()
	u := use{now: quotas.Usage(of, a.GetObject(), cluster, now)}
	if a.GetOperation() == admission.Update {
		u.before = quotas.Usage(of, a.GetOldObject(), cluster, now)
	}
	return u
}

// stored is what matters to the use of an object, as it is in memory.
type stored struct {
	ctx     context.Context
	objects objects.Reader
}

func (s stored) DeviceClass(name string) *resourcev1.DeviceClass {
	class, err := objects.As[*resourcev1.DeviceClass](
		s.objects.Get(s.ctx, resourcev1.Resource("deviceclasses"), "", name))
	if err != nil {
		return nil
	}
	return class
}

func (s stored) Pod(namespace, name string) *corev1.Pod {
	pod, err := objects.As[*corev1.Pod](s.objects.Get(s.ctx, corev1.Resource("pods"), namespace, name))
	if err != nil {
		return nil
	}
	return pod
}

// ResourceClaims implements quotas.Cluster.
func (s stored) ResourceClaims(namespace string) []*resourcev1.ResourceClaim {
	list, err := objects.ListAs[*resourcev1.ResourceClaim](
		s.objects.List(s.ctx, resourcev1.Resource("resourceclaims"), namespace))
	if err != nil {
		return nil
	}
	return list
}

// mapped tells whether there is a class of devices that pods can ask for by an extended resource.
func (s stored) mapped(extended corev1.ResourceName) bool {
	if name, ok := strings.CutPrefix(string(extended), resourcev1.ResourceDeviceClassPrefix); ok {
		return s.DeviceClass(name) != nil
	}
	list, err := objects.ListAs[*resourcev1.DeviceClass](
		s.objects.List(s.ctx, resourcev1.Resource("deviceclasses"), ""))
	return err == nil && slices.ContainsFunc(list, func(c *resourcev1.DeviceClass) bool {
		return c.Spec.ExtendedResourceName != nil && *c.Spec.ExtendedResourceName == string(extended)
	})
}

// about picks the quotas that are about the object of a request. It is an error if one of them can't be kept.
func (p *Plugin) about(ctx context.Context, a admission.Attributes,
	all []*corev1.ResourceQuota) (out []*corev1.ResourceQuota, err error) {
	for _, q := range all {
		names := quotas.Charged(a.GetResource().GroupResource(), quota.ResourceNames(q.Status.Hard),
			stored{ctx, p.objects}.mapped)
		if len(names) == 0 || !quotas.About(q, a.GetObject()) {
			continue
		}
		if err := checkRequired(a.GetObject(), names); err != nil {
			return nil, fmt.Errorf("failed quota: %s: %w", q.Name, err)
		}
		if len(quota.Difference(names, quota.ResourceNames(q.Status.Used))) > 0 {
			return nil, fmt.Errorf("status unknown for quota: %s, resources: %s", q.Name, join(names))
		}
		out = append(out, q)
	}
	return out, nil
}

// charge is what one request adds to one quota, which is as it was in memory.
type charge struct {
	quota *corev1.ResourceQuota
	delta corev1.ResourceList
}

// over is what a quota has no room for.
func (c *charge) over(q *corev1.ResourceQuota) []corev1.ResourceName {
	_, over := quota.LessThanOrEqual(quota.Mask(quota.Add(q.Status.Used, c.delta), quota.ResourceNames(c.delta)),
		q.Status.Hard)
	return over
}

// chargesOf returns the charges, and whether the object uses more of any resource than it did: what a quota didn't
// cover before counts in full.
func chargesOf(a admission.Attributes, u use, about []*corev1.ResourceQuota) (charges []charge, more bool) {
	grown := u.now
	if a.GetOperation() == admission.Update {
		grown = quota.SubtractWithNonNegativeResult(u.now, u.before)
	}
	if len(about) == 0 {
		return nil, len(quota.RemoveZeros(grown)) > 0
	}
	for _, q := range about {
		delta := grown
		if a.GetOperation() == admission.Update && !quotas.About(q, a.GetOldObject()) {
			delta = u.now
		}
		delta = quota.RemoveZeros(delta)
		more = more || len(delta) > 0
		if delta = quota.Mask(delta, quota.ResourceNames(q.Status.Hard)); len(delta) > 0 {
			charges = append(charges, charge{quota: q, delta: delta})
		}
	}
	return charges, more
}

// fit looks for room in all quotas before the first of several is written: what one of them refuses leaves no trace in
// the others. What is stored is asked only if there is no room in what is in memory.
func (p *Plugin) fit(ctx context.Context, a admission.Attributes, charges []charge) error {
	if len(charges) < 2 {
		return nil
	}
	for i := range charges {
		c := &charges[i]
		if len(c.over(c.quota)) == 0 {
			continue
		}
		if err := p.checkRoom(ctx, a, c); err != nil {
			return err
		}
	}
	return nil
}

// errUnchanged ends an update that is not to be written.
var errUnchanged = errors.New("nothing is to be written")

// checkRoom tells whether there is room for a charge in the quota as it is stored.
func (p *Plugin) checkRoom(ctx context.Context, a admission.Attributes, c *charge) error {
	err := p.change(ctx, c.quota, func(q *corev1.ResourceQuota) error {
		if err := c.refusal(a, q); err != nil {
			return err
		}
		return errUnchanged
	})
	if apierrors.IsNotFound(err) { // a deleted quota limits nothing
		return nil
	}
	return err
}

// refusal is why there is no room for the charge. What a status tells has happened already.
func (c *charge) refusal(a admission.Attributes, q *corev1.ResourceQuota) error {
	over := c.over(q)
	if len(over) == 0 || a.GetSubresource() == "status" {
		return nil
	}
	return admission.NewForbidden(a, fmt.Errorf("exceeded quota: %s, requested: %s, used: %s, limited: %s", q.Name,
		show(quota.Mask(c.delta, over)), show(quota.Mask(q.Status.Used, over)), show(quota.Mask(q.Status.Hard, over))))
}

// refund releases the charges of a request that another quota rejected, as concurrent requests used it up. Should it
// fail, the quota controller corrects the usage.
func (p *Plugin) refund(ctx context.Context, a admission.Attributes, charges []charge) {
	if a.IsDryRun() {
		return
	}
	for i := range charges {
		_ = p.change(ctx, charges[i].quota, func(q *corev1.ResourceQuota) error {
			q.Status.Used = quota.SubtractWithNonNegativeResult(q.Status.Used, charges[i].delta)
			return nil
		})
	}
}

func show(list corev1.ResourceList) string {
	parts := make([]string, 0, len(list))
	for _, name := range slices.Sorted(maps.Keys(list)) {
		q := list[name]
		parts = append(parts, string(name)+"="+q.String())
	}
	return strings.Join(parts, ",")
}

func join(names []corev1.ResourceName) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = string(n)
	}
	slices.Sort(out)
	return strings.Join(out, ",")
}
