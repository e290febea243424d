package cache

import "time"

// Where there are many watchers of the same objects, most of the cost of an event is to wake each of them and to send a
// frame to each. So a bucket with many watchers is woken in batches: the first event at once, and all events until the
// next batch together. The interval of batches grows with the number of watchers, as does the time that one takes.
const (
	// batchedFrom is the number of watchers from which on they are woken in batches.
	batchedFrom = 32
	// waveShare is the distance for each watcher: some times what the server takes to send to it.
	waveShare = 50 * time.Microsecond
	waveMax   = 20 * time.Millisecond
)

// wakeBatches are the times at which the watchers of a bucket are woken together; they are guarded as the bucket is.
type wakeBatches struct {
	asleep []*Watcher // have something to read and don't know it
	next   time.Time  // not before
	coming bool       // a caller waits for next
}

// wakeAll wakes the watchers that events were dispatched to. It is called after the last event of a revision.
func (r *indexedWatchers) wakeAll() {
	for i, b := range r.asleep {
		r.wakeUp(b)
		r.asleep[i] = nil
	}
	r.asleep = r.asleep[:0]
}

// wakeUp wakes the watchers of a bucket that sleep, now or with the next batch.
func (r *indexedWatchers) wakeUp(b *bucket) {
	if len(b.asleep) == 0 || b.coming {
		return
	}
	now := r.clock.Now()
	rest := b.next.Sub(now)
	if len(b.watchers) < batchedFrom || rest <= 0 {
		b.wave(now)
		return
	}
	b.coming = true
	timer := r.clock.NewTimer(rest)
	go func() {
		defer timer.Stop()
		select {
		case <-timer.C():
		case <-r.closed: // watchers are notified by then
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		b.coming = false
		b.wave(r.clock.Now())
	}()
}

func (b *bucket) wave(now time.Time) {
	for i, w := range b.asleep {
		w.wakeUp()
		b.asleep[i] = nil
	}
	b.asleep = b.asleep[:0]
	b.next = now.Add(min(time.Duration(len(b.watchers))*waveShare, waveMax))
}
