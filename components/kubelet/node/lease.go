package node

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
)

// The pauses of a lease, as upstream's: it is renewed four times in its duration, at times that spread by up to 4 %,
// and a failure is retried after a pause that doubles.
const (
	renewals       = 4
	renewJitter    = 0.04
	leaseTries     = 5
	firstLeaseWait = 200 * time.Millisecond
	mostLeaseWait  = 7 * time.Second
)

// heart renews the node's Lease
// (https://kubernetes.io/docs/concepts/architecture/leases/#node-heart-beats). All of its time is the node's clock's.
type heart struct {
	*Node
	leases coordinationclient.LeaseInterface
	known  *coordinationv1.Lease // as written last; nil is unknown
}

// keepLease renews the lease until ctx ends.
func (n *Node) keepLease(ctx context.Context) {
	h := &heart{Node: n, leases: n.Client.CoordinationV1().Leases(v1.NamespaceNodeLease)}
	period := time.Duration(n.LeaseSeconds) * time.Second / renewals
	ticker := n.Clock.NewTicker(period + time.Duration(renewJitter*rand.Float64()*float64(period)))
	defer ticker.Stop()
	for {
		h.beat(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
	}
}

// beat renews the lease once. It waits for as long as it can't be read.
func (h *heart) beat(ctx context.Context) {
	var err error
	for range leaseTries {
		if h.known == nil {
			created := false
			if created, err = h.find(ctx); err != nil || created {
				break
			}
		}
		if err = h.renew(ctx); err == nil || ctx.Err() != nil {
			return
		}
		h.known = nil // it was written or deleted by another client
	}
	if err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).Error(err, "Lease can't be renewed, will be retried", "node", h.Name)
	}
}

// find reads the lease, or creates it, and repeats that until it knows. Its error is that of a lease that can't be made
// yet.
func (h *heart) find(ctx context.Context) (created bool, err error) {
	for pause := firstLeaseWait; ; pause = min(2*pause, mostLeaseWait) {
		h.known, err = h.leases.Get(ctx, h.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			next, unowned := h.next(&coordinationv1.Lease{
				ObjectMeta: metav1.ObjectMeta{Name: h.Name, Namespace: v1.NamespaceNodeLease}})
			if unowned != nil {
				h.known = nil
				return false, unowned
			}
			h.known, err = h.leases.Create(ctx, next, metav1.CreateOptions{})
			created = err == nil
		}
		if err == nil {
			return created, nil
		}
		h.known = nil
		klog.FromContext(ctx).Info("Lease can't be read or created, will be retried", "node", h.Name, "err", err)
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-h.Clock.After(pause):
		}
	}
}

func (h *heart) renew(ctx context.Context) error {
	next, err := h.next(h.known)
	if err != nil {
		return err
	}
	written, err := h.leases.Update(ctx, next, metav1.UpdateOptions{})
	if err == nil {
		h.known = written
	}
	return err
}

// next is the lease as it is to be written now.
func (h *heart) next(known *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	next := known.DeepCopy()
	next.Spec.HolderIdentity = ptr.To(h.Name)
	next.Spec.LeaseDurationSeconds = ptr.To(h.LeaseSeconds)
	next.Spec.RenewTime = &metav1.MicroTime{Time: h.Clock.Now()}
	return next, h.ownLease(next)
}

// ownLease makes the node the owner of its lease, that both are deleted together.
func (n *Node) ownLease(l *coordinationv1.Lease) error {
	if len(l.OwnerReferences) > 0 {
		return nil
	}
	node := n.registered()
	if node == nil {
		return fmt.Errorf("node %s is not registered", n.Name)
	}
	l.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}}
	return nil
}
