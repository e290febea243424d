package etcd

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Leases are shared by keys that end at about the same time, so that ten thousand events don't need as many leases: a
// lease lives a little longer than asked and is given to all keys of the next leaseReuse (or what is configured), up to
// leaseKeys.
const (
	leaseReuse        = 60 * time.Second
	leaseReusePercent = 5
	leaseKeys         = 1000
)

type leases struct {
	client  *clientv3.Client
	metrics *Metrics
	reuse   time.Duration // at most

	mu       sync.Mutex
	current  map[time.Duration]*lease        // by the life that was asked for
	granting map[time.Duration]chan struct{} // closed when the question for a lease is answered
}

type lease struct {
	id    clientv3.LeaseID
	until time.Time // it may be given to keys
	keys  int
}

// attach returns the lease that makes a put end after ttl.
func (l *leases) attach(ctx context.Context, ttl time.Duration) (clientv3.LeaseID, error) {
	if ttl <= 0 {
		return clientv3.NoLease, nil
	}
	for {
		id, asked := l.take(ttl)
		var err error
		switch {
		case id == clientv3.NoLease && asked == nil:
			if id, err = l.grant(ctx, ttl); err != nil {
				return clientv3.NoLease, err
			}
			fallthrough
		case id != clientv3.NoLease:
			return id, nil
		}
		select {
		case <-asked:
		case <-ctx.Done():
			return clientv3.NoLease, ctx.Err()
		}
	}
}

// take counts one more key for the current lease. Without one, asked is closed when another caller's grant is answered;
// it is nil if the caller is to ask.
func (l *leases) take(ttl time.Duration) (id clientv3.LeaseID, asked <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := l.current[ttl]; now != nil && now.keys < leaseKeys && time.Now().Before(now.until) {
		now.keys++
		return now.id, nil
	}
	if asked := l.granting[ttl]; asked != nil {
		return clientv3.NoLease, asked
	}
	if l.current == nil {
		l.current, l.granting = map[time.Duration]*lease{}, map[time.Duration]chan struct{}{}
	}
	l.granting[ttl] = make(chan struct{})
	return clientv3.NoLease, nil
}

// grant asks for a lease and counts the caller's key. It doesn't block callers that need no new lease.
func (l *leases) grant(ctx context.Context, ttl time.Duration) (clientv3.LeaseID, error) {
	reuse := min(l.reuse, ttl*leaseReusePercent/100)
	resp, err := l.client.Grant(ctx, int64(math.Ceil((ttl + reuse).Seconds())))
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.granting[ttl])
	delete(l.granting, ttl)
	if err != nil {
		return clientv3.NoLease, err
	}
	if before := l.current[ttl]; before != nil && l.metrics != nil {
		l.metrics.leaseKeys.Observe(float64(before.keys))
	}
	l.current[ttl] = &lease{id: resp.ID, until: time.Now().Add(reuse), keys: 1}
	return resp.ID, nil
}

// lost tells whether a write failed as the store doesn't know its lease: it was restored, say. Nothing of the write has
// happened then, and it is to be repeated: that lease is no longer handed out.
func (l *leases) lost(ttl time.Duration, id clientv3.LeaseID, err error) bool {
	if id == clientv3.NoLease || !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := l.current[ttl]; now != nil && now.id == id {
		delete(l.current, ttl)
	}
	return true
}
