package hollow

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
)

// queue holds, for one watcher, the changed pods that were not delivered yet. Each is delivered once.
type queue struct {
	order  []types.UID
	queued map[types.UID]bool
	more   chan struct{}
}

// Events implements runtime.Runtime.
func (e *Engine) Events(ctx context.Context) (<-chan types.UID, error) {
	out := make(chan types.UID)
	q := &queue{queued: map[types.UID]bool{}, more: make(chan struct{}, 1)}
	e.mu.Lock()
	e.watches[out] = q
	e.mu.Unlock()
	go func() {
		defer close(out)
		defer func() {
			e.mu.Lock()
			delete(e.watches, out)
			e.mu.Unlock()
		}()
		for {
			select {
			case <-ctx.Done():
				return
			case <-q.more:
			}
			for _, uid := range e.take(q) {
				select {
				case out <- uid:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	return out, nil
}

func (e *Engine) take(q *queue) []types.UID {
	e.mu.Lock()
	defer e.mu.Unlock()
	order := q.order
	q.order = nil
	clear(q.queued)
	return order
}

// notify is called with the lock held.
func (e *Engine) notify(uid types.UID) {
	for _, q := range e.watches {
		if q.queued[uid] {
			continue
		}
		q.queued[uid] = true
		q.order = append(q.order, uid)
		select {
		case q.more <- struct{}{}:
		default:
		}
	}
}
