package resourcequota

import (
	"context"
	"errors"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"
	quota "k8s.io/apiserver/pkg/quota/v1"

	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/objects"
)

// desks are where charges wait for another one to the same quota to be written: those that wait are written together then. Each on its
// own would meet a newer state of the quota at nearly every try.
type desks struct {
	mu      sync.Mutex
	waiting map[string][]*booking // by namespace and name of the quota; there while somebody writes
}

// booking is a charge that waits.
type booking struct {
	charge     *charge
	attributes admission.Attributes
	err        error // what came of it
	// turn tells, once, that the charge leads, which is to write all that wait, or that it is decided.
	turn chan bool
}

// join reports whether the booking leads from the start.
func (d *desks) join(key string, b *booking) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	waiting, busy := d.waiting[key]
	if d.waiting == nil {
		d.waiting = map[string][]*booking{}
	}
	d.waiting[key] = append(waiting, b)
	return !busy
}

// take is for who leads.
func (d *desks) take(key string) []*booking {
	d.mu.Lock()
	defer d.mu.Unlock()
	batch := d.waiting[key]
	d.waiting[key] = nil
	return batch
}

// pass lets the next one lead; those that are to be tried again come before others.
func (d *desks) pass(key string, again ...*booking) {
	d.mu.Lock()
	defer d.mu.Unlock()
	waiting := append(again, d.waiting[key]...)
	if len(waiting) == 0 {
		delete(d.waiting, key)
		return
	}
	d.waiting[key] = waiting
	waiting[0].turn <- true
}

// leave takes back a booking that waits. What it was told at the same moment is returned.
func (d *desks) leave(key string, b *booking) (leads, decided bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i := slices.Index(d.waiting[key], b); i >= 0 {
		d.waiting[key] = slices.Delete(d.waiting[key], i, i+1)
	}
	select {
	case leads = <-b.turn:
		return leads, !leads
	default:
		return false, false
	}
}

// book adds a charge to the quota as it is stored, if there is room for it, or it can't be helped.
func (p *Plugin) book(ctx context.Context, a admission.Attributes, c *charge) error {
	key, b := a.GetNamespace()+"/"+c.quota.Name, &booking{charge: c, attributes: a, turn: make(chan bool, 1)}
	if !p.desks.join(key, b) {
		select {
		case leads := <-b.turn:
			if !leads {
				return b.err
			}
		case <-ctx.Done():
			leads, decided := p.desks.leave(key, b)
			if decided {
				return b.err
			}
			if leads {
				p.desks.pass(key)
			}
			return apierrors.NewTimeoutError("request did not complete within the allotted timeout", 0)
		}
	}
	batch := p.desks.take(key)
	err := p.write(ctx, c.quota, batch)
	if err != nil && ctx.Err() != nil { // of this request alone
		p.desks.pass(key, slices.DeleteFunc(batch, func(other *booking) bool { return other == b })...)
		return err
	}
	p.desks.pass(key)
	for _, other := range batch {
		if err != nil {
			other.err = err
		}
		if other != b {
			other.turn <- false
		}
	}
	return b.err
}

// write adds the charges for which there is room, in the order in which they came, and leaves what comes of each in its booking.
func (p *Plugin) write(ctx context.Context, to *corev1.ResourceQuota, batch []*booking) error {
	for _, b := range batch {
		b.err = nil // of a try that failed
	}
	return p.change(ctx, to, func(q *corev1.ResourceQuota) error {
		refused := errUnchanged
		for _, b := range batch {
			if b.err = b.charge.refusal(b.attributes, q); b.err == nil {
				q.Status.Used, refused = quota.Add(q.Status.Used, b.charge.delta), nil
			}
		}
		return refused
	})
}

// change changes the status of a quota as it is stored. The change may be tried several times, and may end with errUnchanged, which is
// no error.
func (p *Plugin) change(ctx context.Context, of *corev1.ResourceQuota, change func(q *corev1.ResourceQuota) error) error {
	_, err := p.objects.UpdateStatus(ctx, kind, of.Namespace, of.Name, func(obj kinds.Object) (kinds.Object, error) {
		q, err := objects.As[*corev1.ResourceQuota](obj, nil)
		if err != nil {
			return nil, err
		}
		return q, change(q)
	})
	if errors.Is(err, errUnchanged) || apierrors.IsNotFound(err) { // a quota that went away binds nobody
		return nil
	}
	return err
}
