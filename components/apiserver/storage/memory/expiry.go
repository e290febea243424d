package memory

import (
	"container/heap"
	"context"
	"time"

	"quintet.dev/quintet/components/apiserver/storage"
)

// expiry removes a key at a time, if it is still at that revision.
type expiry struct {
	at       time.Time
	key      string
	revision int64
}

// expiries is a heap, soonest first.
type expiries []expiry

func (e expiries) Len() int           { return len(e) }
func (e expiries) Less(i, j int) bool { return e[i].at.Before(e[j].at) }
func (e expiries) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *expiries) Push(x any)        { *e = append(*e, x.(expiry)) }
func (e *expiries) Pop() any {
	old := *e
	last := old[len(old)-1]
	*e = old[:len(old)-1]
	return last
}

// schedule is called with s.mu held.
func (s *Store) schedule(e expiry) {
	heap.Push(&s.expiries, e)
	if s.expiries[0] == e {
		select {
		case s.rearm <- struct{}{}:
		default:
		}
	}
}

func (s *Store) expire(ctx context.Context) {
	for {
		wait := s.removeExpired()
		if wait == 0 {
			wait = time.Hour
		}
		timer := s.clock.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-s.rearm:
			timer.Stop()
		case <-timer.C():
		}
	}
}

// removeExpired returns how long it is to the next expiry, 0 if there is none.
func (s *Store) removeExpired() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.expiries) > 0 && !s.closed {
		next := s.expiries[0]
		if wait := next.at.Sub(s.clock.Now()); wait > 0 {
			return wait
		}
		heap.Pop(&s.expiries)
		if kv, ok := s.current(next.key); ok && kv.Revision == next.revision {
			s.append(storage.Event{Type: storage.Delete, KeyValue: storage.KeyValue{Key: next.key}})
		}
	}
	return 0
}
