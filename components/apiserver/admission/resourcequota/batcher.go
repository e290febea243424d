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

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/objects"
)

// writeTimeout is upstream's bound on the time that a quota takes to be evaluated.
const writeTimeout = 10 * time.Second

// batcher collects charges while another one to the same quota is written: those that wait are written together
// then. Each on its own would meet a newer state of the quota at nearly every try.
type batcher struct {
	mu      sync.Mutex
	waiting map[string][]*pendingCharge // by namespace and name of the quota; there while its charges are being written
}

// pendingCharge is a charge that waits.
type pendingCharge struct {
	charge     *charge
	attributes admission.Attributes
	err        error // what came of it
	// turn tells, once, that the charge leads, which is to write all that wait, or that it is decided.
	turn chan bool
}

// join reports whether the charge leads from the start.
func (d *batcher) join(key string, b *pendingCharge) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	waiting, busy := d.waiting[key]
	if d.waiting == nil {
		d.waiting = map[string][]*pendingCharge{}
	}
	d.waiting[key] = append(waiting, b)
	return !busy
}

// take is called by the leader.
func (d *batcher) take(key string) []*pendingCharge {
	d.mu.Lock()
	defer d.mu.Unlock()
	batch := d.waiting[key]
	d.waiting[key] = nil
	return batch
}

// settle gives the charges of a batch their result, and lets the next one lead.
func (d *batcher) settle(key string, batch []*pendingCharge, leader *pendingCharge, err error) {
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
func (d *batcher) pass(key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if waiting := d.waiting[key]; len(waiting) > 0 {
		waiting[0].turn <- true
		return
	}
	delete(d.waiting, key)
}

// leave withdraws a waiting charge. A decision made at the same moment is returned. A charge that is being written
// stays, as upstream's, until the quota controller recalculates the usage.
func (d *batcher) leave(key string, b *pendingCharge) (leads, decided bool) {
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

// book adds a charge to the stored quota in a batch, and returns why it was rejected.
func (p *Plugin) book(ctx context.Context, a admission.Attributes, c *charge) error {
	key, b := a.GetNamespace()+"/"+c.quota.Name, &pendingCharge{charge: c, attributes: a, turn: make(chan bool, 1)}
	if !p.batcher.join(key, b) {
		select {
		case leads := <-b.turn:
			if !leads {
				return b.err
			}
		case <-ctx.Done():
			leads, decided := p.batcher.leave(key, b)
			if decided {
				return b.err
			}
			if leads {
				p.batcher.pass(key)
			}
			return apierrors.NewTimeoutError("request did not complete within the allotted timeout", 0)
		}
	}
	p.lead(ctx, key, b)
	return b.err
}

// lead writes the charges that wait. That goes on when the leading request ends: the outcome would be unknown
// otherwise, and other requests wait for it, too.
func (p *Plugin) lead(ctx context.Context, key string, b *pendingCharge) {
	batch := p.batcher.take(key)
	// to the others, if this panics
	err := error(apierrors.NewInternalError(errors.New("the quota could not be charged")))
	defer func() { p.batcher.settle(key, batch, b, err) }()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	err = p.write(ctx, b.charge.quota, batch)
}

// write adds the charges that fit, in the order in which they came, and records the result of each.
func (p *Plugin) write(ctx context.Context, to *corev1.ResourceQuota, batch []*pendingCharge) error {
	err := p.change(ctx, to, func(q *corev1.ResourceQuota) error {
		refused := errUnchanged
		for _, b := range batch {
			if b.err = b.charge.refusal(b.attributes, q); b.err == nil {
				q.Status.Used, refused = quota.Add(q.Status.Used, b.charge.delta), nil
			}
		}
		return refused
	})
	if apierrors.IsNotFound(err) { // a deleted quota limits nothing, whatever the remembered one had left
		for _, b := range batch {
			b.err = nil
		}
		return nil
	}
	return err
}

// change changes the status of a quota as it is stored. The change may be tried several times, and may end with
// errUnchanged, which is no error.
func (p *Plugin) change(ctx context.Context, of *corev1.ResourceQuota,
	change func(q *corev1.ResourceQuota) error) error {
	_, err := p.objects.UpdateStatus(ctx, kind, of.Namespace, of.Name, func(obj api.Object) (api.Object, error) {
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
