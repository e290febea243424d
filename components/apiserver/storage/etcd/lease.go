package etcd

import (
	"context"
	"math"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Leases are shared by keys that end at about the same time, so that ten thousand events don't need as many leases: a
// lease lives a little longer than asked and is given to all keys of the next leaseReuse, up to leaseKeys.
const (
	leaseReuse        = 60 * time.Second
	leaseReusePercent = 5
	leaseKeys         = 1000
)

type leases struct {
	client *clientv3.Client

	mu    sync.Mutex
	id    clientv3.LeaseID
	ttl   time.Duration // that the lease was asked for
	until time.Time     // it may be given to keys
	keys  int
}

// attach returns the options that make a put end after ttl.
func (l *leases) attach(ctx context.Context, ttl time.Duration) ([]clientv3.OpOption, error) {
	if ttl <= 0 {
		return nil, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ttl != ttl || l.keys >= leaseKeys || !time.Now().Before(l.until) {
		if err := l.grant(ctx, ttl); err != nil {
			return nil, err
		}
	}
	l.keys++
	return []clientv3.OpOption{clientv3.WithLease(l.id)}, nil
}

func (l *leases) grant(ctx context.Context, ttl time.Duration) error {
	reuse := min(leaseReuse, ttl*leaseReusePercent/100)
	resp, err := l.client.Grant(ctx, int64(math.Ceil((ttl + reuse).Seconds())))
	if err != nil {
		return err
	}
	l.id, l.ttl, l.until, l.keys = resp.ID, ttl, time.Now().Add(reuse), 0
	return nil
}
