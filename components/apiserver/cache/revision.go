package cache

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/apiserver/latency"
)

// revisionWaiter holds the revision that the caches have reached, and wakes the readers that wait for a later one.
type revisionWaiter struct {
	revision atomic.Int64

	mu      sync.Mutex
	waiters map[*waiter]struct{}
}

type waiter struct {
	revision int64
	done     chan struct{}
}

func (h *revisionWaiter) advance(revision int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if revision <= h.revision.Load() {
		return
	}
	h.revision.Store(revision)
	for w := range h.waiters {
		if w.revision <= revision {
			close(w.done)
			delete(h.waiters, w)
		}
	}
}

// withdraw takes back a reached revision that is higher than the store's. It must not be taken for that of a refilled
// cache.
func (h *revisionWaiter) withdraw(revision int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if revision < h.revision.Load() {
		h.revision.Store(0)
	}
}

// Nudges: events of our prefix come by themselves, but the store's revision may have been moved by keys of others; then
// only progress, asked for, tells that nothing of ours is missing.
const (
	firstNudge = 3 * time.Millisecond
	nextNudges = 100 * time.Millisecond
)

// wait returns when revision is reached, or with ctx's error. It calls nudge while it waits, which may take as long as
// ctx lasts.
func (h *revisionWaiter) wait(ctx context.Context, c clock.Clock, revision int64,
	requestProgress func(context.Context)) error {
	if h.revision.Load() >= revision {
		return nil
	}
	w := &waiter{revision: revision, done: make(chan struct{})}
	h.mu.Lock()
	if h.revision.Load() >= revision {
		h.mu.Unlock()
		return nil
	}
	if h.waiters == nil {
		h.waiters = map[*waiter]struct{}{}
	}
	h.waiters[w] = struct{}{}
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		delete(h.waiters, w)
		h.mu.Unlock()
	}()
	timer := c.NewTimer(firstNudge)
	defer timer.Stop()
	for {
		select {
		case <-w.done:
			return nil
		case <-ctx.Done():
			if h.revision.Load() >= revision { // while nudge took the time
				return nil
			}
			return ctx.Err()
		case <-timer.C():
			requestProgress(ctx)
			timer.Reset(nextNudges)
		}
	}
}

// revisionCoalescer reads the store's revision once for all callers that wait at that moment: a result counts only for
// those that called before the read was sent.
type revisionCoalescer struct {
	ask func(context.Context) (int64, error)
	// base is for questions of several.
	base context.Context
	// timeout is the timeout of one read: other callers can't start one meanwhile.
	timeout time.Duration

	mu   sync.Mutex
	busy bool
	next *revisionCall
}

// askTimeout is the timeout of a read of the store's revision.
const askTimeout = 10 * time.Second

type revisionCall struct {
	done   chan struct{}
	answer int64
	err    error
}

// current is asked again, in turn with others, as long as ctx lasts: a store that is away for a while may come back.
func (a *revisionCoalescer) current(ctx context.Context) (int64, error) {
	times := latency.From(ctx)
	defer times.Add(latency.Storage, times.Begin())
	for {
		answer, err := a.once(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return answer, err
		}
	}
}

func (a *revisionCoalescer) once(ctx context.Context) (int64, error) {
	a.mu.Lock()
	if !a.busy {
		a.busy = true
		a.mu.Unlock()
		bounded, cancel := context.WithTimeout(ctx, a.timeout)
		answer, err := a.ask(bounded)
		cancel()
		a.handOver()
		return answer, err
	}
	if a.next == nil {
		a.next = &revisionCall{done: make(chan struct{})}
	}
	q := a.next
	a.mu.Unlock()
	select {
	case <-q.done:
		return q.answer, q.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// handOver starts the read for the callers that came meanwhile.
func (a *revisionCoalescer) handOver() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.next == nil {
		a.busy = false
		return
	}
	go a.put()
}

// put asks the next question.
func (a *revisionCoalescer) put() {
	runtime.Gosched() // callers that are about to ask join
	a.mu.Lock()
	q := a.next
	a.next = nil
	a.mu.Unlock()
	ctx, cancel := context.WithTimeout(a.base, a.timeout)
	q.answer, q.err = a.ask(ctx)
	cancel()
	close(q.done)
	a.handOver()
}
