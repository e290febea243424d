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

	"quintet.dev/quintet/components/apiserver/kinds"
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
}

var _ admission.ValidationInterface = &Plugin{}

// New returns the plug-in with its configuration, which may be empty. It writes to the status of quotas.
func New(store objects.Store, clock clock.PassiveClock, file []byte) (*Plugin, error) {
	limited, err := readLimited(file)
	return &Plugin{Handler: admission.NewHandler(admission.Create, admission.Update), objects: store, clock: clock, limited: limited}, err
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
	u := p.use(ctx, a)
	var charges []charge
	for _, q := range list {
		c, err := newCharge(a, u, q)
		if err != nil {
			return admission.NewForbidden(a, err)
		}
		if c != nil {
			charges = append(charges, *c)
		}
	}
	if err := p.limited.check(a, u, list); err != nil {
		return err
	}
	for i := range charges {
		if err := p.book(ctx, a, &charges[i]); err != nil {
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
	class, err := objects.As[*resourcev1.DeviceClass](s.objects.Get(s.ctx, resourcev1.Resource("deviceclasses"), "", name))
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

// charge is what one request adds to one quota.
type charge struct {
	quota string
	delta corev1.ResourceList
}

// newCharge returns nil when the quota does not count the object, or counts nothing more of it than before.
func newCharge(a admission.Attributes, u use, q *corev1.ResourceQuota) (*charge, error) {
	if !quotas.About(q, a.GetObject()) {
		return nil, nil
	}
	names := quota.Intersection(quota.ResourceNames(q.Status.Hard), quota.ResourceNames(u.now))
	required := requiredOf(a, q)
	if len(required) > 0 {
		if err := checkRequired(a.GetObject(), required); err != nil {
			return nil, fmt.Errorf("failed quota: %s: %w", q.Name, err)
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	if unknown := quota.Difference(names, quota.ResourceNames(q.Status.Used)); len(unknown) > 0 {
		return nil, fmt.Errorf("status unknown for quota: %s, resources: %s", q.Name, join(unknown))
	}
	delta := quota.Mask(u.now, names)
	if a.GetOperation() == admission.Update {
		delta = quota.SubtractWithNonNegativeResult(delta, quota.Mask(u.before, names))
	}
	delta = quota.RemoveZeros(delta)
	if len(delta) == 0 {
		return nil, nil
	}
	return &charge{quota: q.Name, delta: delta}, nil
}

// errUnchanged ends an update that is not to be written.
var errUnchanged = errors.New("dry run")

// book adds a charge to the quota as it is stored, if there is room for it.
func (p *Plugin) book(ctx context.Context, a admission.Attributes, c *charge) error {
	_, err := p.objects.UpdateStatus(ctx, kind, a.GetNamespace(), c.quota, func(obj kinds.Object) (kinds.Object, error) {
		q, err := objects.As[*corev1.ResourceQuota](obj, nil)
		if err != nil {
			return nil, err
		}
		used := quota.Add(q.Status.Used, c.delta)
		if fits, over := quota.LessThanOrEqual(quota.Mask(used, quota.ResourceNames(c.delta)), q.Status.Hard); !fits {
			return nil, admission.NewForbidden(a, fmt.Errorf("exceeded quota: %s, requested: %s, used: %s, limited: %s", q.Name,
				show(quota.Mask(c.delta, over)), show(quota.Mask(q.Status.Used, over)), show(quota.Mask(q.Status.Hard, over))))
		}
		if a.IsDryRun() {
			return nil, errUnchanged
		}
		q.Status.Used = used
		return q, nil
	})
	if errors.Is(err, errUnchanged) || apierrors.IsNotFound(err) { // a quota that went away binds nobody
		return nil
	}
	return err
}

// refund gives back what was booked for a request that another quota refused. Should it fail, the controller will find out.
func (p *Plugin) refund(ctx context.Context, a admission.Attributes, charges []charge) {
	if a.IsDryRun() {
		return
	}
	for i := range charges {
		_, _ = p.objects.UpdateStatus(ctx, kind, a.GetNamespace(), charges[i].quota, func(obj kinds.Object) (kinds.Object, error) {
			q, err := objects.As[*corev1.ResourceQuota](obj, nil)
			if err != nil {
				return nil, err
			}
			q.Status.Used = quota.SubtractWithNonNegativeResult(q.Status.Used, charges[i].delta)
			return q, nil
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
