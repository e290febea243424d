package memory

import (
	"context"
	"sync/atomic"

	"quintet.dev/quintet/components/apiserver/storage"
)

// watchBatch is how many events a watcher gets at once.
const watchBatch = 1000

type watcher struct {
	store  *Store
	prefix string
	events chan []storage.Event
	err    atomic.Pointer[error]
}

// Events implements storage.Watcher.
func (w *watcher) Events() <-chan []storage.Event { return w.events }

// Err implements storage.Watcher.
func (w *watcher) Err() error {
	if err := w.err.Load(); err != nil {
		return *err
	}
	return nil
}

// Watch implements storage.Store.
func (s *Store) Watch(ctx context.Context, prefix string, after int64) storage.Watcher {
	w := &watcher{store: s, prefix: prefix, events: make(chan []storage.Event)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		w.err.Store(&storage.ErrClosed)
		close(w.events)
		return w
	}
	progress := s.progress
	s.done.Go(func() { w.run(ctx, after, progress) })
	return w
}

func (w *watcher) run(ctx context.Context, after int64, progress uint64) {
	defer close(w.events)
	for {
		batch, next, requested, changed, err := w.store.since(w.prefix, after)
		if err != nil {
			w.err.Store(&err)
			return
		}
		after = next
		if requested != progress && changed != nil {
			progress = requested
			batch = append(batch, storage.Event{Type: storage.Progress, KeyValue: storage.KeyValue{Revision: after}})
		}
		if len(batch) > 0 {
			select {
			case w.events <- batch:
			case <-ctx.Done():
				return
			}
		}
		if changed == nil {
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// since returns the next events below prefix, the revision they reach, the count of progress requests, and what to wait
// for; that is nil if there is more at once.
func (s *Store) since(prefix string, after int64) (batch []storage.Event, next int64, progress uint64,
	changed <-chan struct{}, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return nil, 0, 0, nil, storage.ErrClosed
	}
	if after+1 < s.compacted {
		return nil, 0, 0, nil, storage.ErrCompacted
	}
	next = after
	if len(s.log) > 0 {
		first := s.log[0].Revision
		for i := max(0, after+1-first); i < int64(len(s.log)); i++ {
			e := s.log[i]
			next = e.Revision
			if inPrefix(e.Key, prefix) {
				batch = append(batch, e)
			}
			if len(batch) == watchBatch {
				return batch, next, s.progress, nil, nil
			}
		}
	}
	// A watch that begins in the future has nothing to say before it.
	return batch, max(next, after), s.progress, s.changed, nil
}
