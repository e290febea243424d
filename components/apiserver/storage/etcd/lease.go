package etcd

import (
	"context"
	"math"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Leases are shared by keys that end at about the same time, so that ten thousand events don't need as many leases: a
// lease lives a little longer than asked and is given to all keys of the next leaseReuse (or what is configured), up to leaseKeys.
const (
	leaseReuse        = 60 * time.Second
	leaseReusePercent = 5
	leaseKeys         = 1000
)

type leases struct {
	client *clientv3.Client
	reuse  time.Duration // at most

	mu      sync.Mutex
	current map[time.Duration]*lease // by the life that was asked for
}

type lease struct {
	id    clientv3.LeaseID
	until time.Time // it may be given to keys
	keys  int
}

// attach returns the options that make a put end after ttl.
func (l *leases) attach(ctx context.Context, ttl time.Duration) ([]clientv3.OpOption, error) {
	if ttl <= 0 {
		return nil, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	current := l.current[ttl]
	if current == nil || current.keys >= leaseKeys || !time.Now().Before(current.until) {
		var err error
		if current, err = l.grant(ctx, ttl); err != nil {
			return nil, err
		}
	}
	current.keys++
	return []clientv3.OpOption{clientv3.WithLease(current.id)}, nil
}

func (l *leases) grant(ctx context.Context, ttl time.Duration) (*lease, error) {
	reuse := min(l.reuse, ttl*leaseReusePercent/100)
	resp, err := l.client.Grant(ctx, int64(math.Ceil((ttl + reuse).Seconds())))
	if err != nil {
		return nil, err
	}
	if l.current == nil {
		l.current = map[time.Duration]*lease{}
	}
	l.current[ttl] = &lease{id: resp.ID, until: time.Now().Add(reuse)}
	return l.current[ttl], nil
}
