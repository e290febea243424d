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
	// leads tells, once, that the charge leads, which is to write all that wait, or that it is decided.
	leads chan bool
}

// join reports whether the charge leads from the start.
func (b *batcher) join(key string, p *pendingCharge) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	waiting, busy := b.waiting[key]
	if b.waiting == nil {
		b.waiting = map[string][]*pendingCharge{}
	}
	b.waiting[key] = append(waiting, p)
	return !busy
}

// take is called by the leader.
func (b *batcher) take(key string) []*pendingCharge {
	b.mu.Lock()
	defer b.mu.Unlock()
	batch := b.waiting[key]
	b.waiting[key] = nil
	return batch
}

// settle gives the charges of a batch their result, and lets the next one lead.
func (b *batcher) settle(key string, batch []*pendingCharge, leader *pendingCharge, err error) {
	for _, p := range batch {
		if err != nil {
			p.err = err
		}
		if p != leader {
			p.leads <- false
		}
	}
	b.pass(key)
}

// pass lets the next one lead.
func (b *batcher) pass(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if waiting := b.waiting[key]; len(waiting) > 0 {
		waiting[0].leads <- true
		return
	}
	delete(b.waiting, key)
}

// leave withdraws a waiting charge. A decision made at the same moment is returned. A charge that is being written
// stays, as upstream's, until the quota controller recalculates the usage.
func (b *batcher) leave(key string, p *pendingCharge) (leads, decided bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.waiting[key], p); i >= 0 {
		b.waiting[key] = slices.Delete(b.waiting[key], i, i+1)
	}
	select {
	case leads = <-p.leads:
		return leads, !leads
	default:
		return false, false
	}
}

// charge adds a charge to the stored quota in a batch, and returns why it was rejected.
func (p *Plugin) charge(ctx context.Context, a admission.Attributes, c *charge) error {
	key, pending := a.GetNamespace()+"/"+c.quota.Name, &pendingCharge{charge: c, attributes: a, leads: make(chan bool, 1)}
	if !p.batcher.join(key, pending) {
		select {
		case leads := <-pending.leads:
			if !leads {
				return pending.err
			}
		case <-ctx.Done():
			leads, decided := p.batcher.leave(key, pending)
			if decided {
				return pending.err
			}
			if leads {
				p.batcher.pass(key)
			}
			return apierrors.NewTimeoutError("request did not complete within the allotted timeout", 0)
		}
	}
	p.lead(ctx, key, pending)
	return pending.err
}

// lead writes the charges that wait. That goes on when the leading request ends: the outcome would be unknown
// otherwise, and other requests wait for it, too.
func (p *Plugin) lead(ctx context.Context, key string, leader *pendingCharge) {
	batch := p.batcher.take(key)
	// to the others, if this panics
	err := error(apierrors.NewInternalError(errors.New("the quota could not be charged")))
	defer func() { p.batcher.settle(key, batch, leader, err) }()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	err = p.write(ctx, leader.charge.quota, batch)
}

// write adds the charges that fit, in the order in which they came, and records the result of each.
func (p *Plugin) write(ctx context.Context, to *corev1.ResourceQuota, batch []*pendingCharge) error {
	err := p.change(ctx, to, func(q *corev1.ResourceQuota) error {
		refused := errUnchanged
		for _, pending := range batch {
			if pending.err = pending.charge.refusal(pending.attributes, q); pending.err == nil {
				q.Status.Used, refused = quota.Add(q.Status.Used, pending.charge.delta), nil
			}
		}
		return refused
	})
	if apierrors.IsNotFound(err) { // a deleted quota limits nothing, whatever the remembered one had left
		for _, pending := range batch {
			pending.err = nil
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
