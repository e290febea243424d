package resourcequota

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"
	quota "k8s.io/apiserver/pkg/quota/v1"

	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/objects"
)

// writeTimeout is upstream's bound on the time that a quota takes to be evaluated.
const writeTimeout = 10 * time.Second

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

// settle tells those who came with a batch what became of it, and lets the next one lead.
func (d *desks) settle(key string, batch []*booking, leader *booking, err error) {
	for _, b := range batch {
		if err != nil {
			b.err = err
		}
		if b != leader {
			b.turn <- false
		}
	}
	d.pass(key)
}

// pass lets the next one lead.
func (d *desks) pass(key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if waiting := d.waiting[key]; len(waiting) > 0 {
		waiting[0].turn <- true
		return
	}
	delete(d.waiting, key)
}

// leave takes back a booking that waits. What it was told at the same moment is returned. One that is being written stays charged, as
// upstream's, until the quota controller counts anew.
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
	p.lead(ctx, key, b)
	return b.err
}

// lead writes the charges that wait. That goes on when the request ends that leads: nobody could tell whether it was done, and others
// wait for it, too.
func (p *Plugin) lead(ctx context.Context, key string, b *booking) {
	batch := p.desks.take(key)
	err := error(apierrors.NewInternalError(errors.New("the quota could not be charged"))) // to the others, if this panics
	defer func() { p.desks.settle(key, batch, b, err) }()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	err = p.write(ctx, b.charge.quota, batch)
}

// write adds the charges for which there is room, in the order in which they came, and leaves what comes of each in its booking.
func (p *Plugin) write(ctx context.Context, to *corev1.ResourceQuota, batch []*booking) error {
	err := p.change(ctx, to, func(q *corev1.ResourceQuota) error {
		refused := errUnchanged
		for _, b := range batch {
			if b.err = b.charge.refusal(b.attributes, q); b.err == nil {
				q.Status.Used, refused = quota.Add(q.Status.Used, b.charge.delta), nil
			}
		}
		return refused
	})
	if apierrors.IsNotFound(err) { // a quota that went away binds nobody, whatever was found in the one that was remembered
		for _, b := range batch {
			b.err = nil
		}
		return nil
	}
	return err
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
	if errors.Is(err, errUnchanged) {
		return nil
	}
	return err
}
