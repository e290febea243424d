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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"
	quota "k8s.io/apiserver/pkg/quota/v1"

	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/objects"
)

// Name is the plug-in's.
const Name = "ResourceQuota"

var quotas = corev1.Resource("resourcequotas")

// Plugin implements the admission.
type Plugin struct {
	*admission.Handler
	objects objects.Store
	limited limited
}

var _ admission.ValidationInterface = &Plugin{}

// New returns the plug-in with its configuration, which may be empty. It writes to the status of quotas.
func New(store objects.Store, file []byte) (*Plugin, error) {
	limited, err := readLimited(file)
	return &Plugin{Handler: admission.NewHandler(admission.Create, admission.Update), objects: store, limited: limited}, err
}

// Validate charges the object to all quotas that count it, or to none.
func (p *Plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetNamespace() == "" || a.GetResource().GroupResource() == corev1.Resource("namespaces") || !counted(a) {
		return nil
	}
	list, err := objects.ListAs[*corev1.ResourceQuota](p.objects.List(ctx, quotas, a.GetNamespace()))
	if err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return admission.NewForbidden(a, fmt.Errorf("reading quotas: %w", err))
	}
	var charges []charge
	for _, q := range list {
		c, err := newCharge(a, q)
		if err != nil {
			return admission.NewForbidden(a, err)
		}
		if c != nil {
			charges = append(charges, *c)
		}
	}
	if err := p.limited.check(a, list); err != nil {
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

// charge is what one request adds to one quota.
type charge struct {
	quota string
	delta corev1.ResourceList
}

// newCharge returns nil when the quota does not count the object, or counts nothing more of it than before.
func newCharge(a admission.Attributes, q *corev1.ResourceQuota) (*charge, error) {
	if !inScope(a, q) {
		return nil, nil
	}
	usage := usageOf(a.GetResource().GroupResource(), a.GetObject())
	names := quota.Intersection(quota.ResourceNames(q.Status.Hard), quota.ResourceNames(usage))
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
	delta := quota.Mask(usage, names)
	if a.GetOperation() == admission.Update {
		before := usageOf(a.GetResource().GroupResource(), a.GetOldObject())
		delta = quota.SubtractWithNonNegativeResult(delta, quota.Mask(before, names))
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
	_, err := p.objects.UpdateStatus(ctx, quotas, a.GetNamespace(), c.quota, func(obj kinds.Object) (kinds.Object, error) {
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
		_, _ = p.objects.UpdateStatus(ctx, quotas, a.GetNamespace(), charges[i].quota, func(obj kinds.Object) (kinds.Object, error) {
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
