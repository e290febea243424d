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

// wakeBatches are the times at which the watchers of a bucket are woken together; they are guarded by Cache.mu.
type wakeBatches struct {
	asleep []*Watcher // have something to read and don't know it
	next   time.Time  // not before
	coming bool       // a caller waits for next
}

// rouseAll wakes the watchers that events were dispatched to. It is called with c.mu held, after the last event of a
// revision.
func (c *Cache) rouseAll() {
	for i, b := range c.watchers.asleep {
		c.wakeUp(b)
		c.watchers.asleep[i] = nil
	}
	c.watchers.asleep = c.watchers.asleep[:0]
}

// wakeUp wakes the watchers of sleeping buckets, now or with the next batch.
func (c *Cache) wakeUp(b *bucket) {
	if len(b.asleep) == 0 || b.coming {
		return
	}
	now := c.set.config.Clock.Now()
	rest := b.next.Sub(now)
	if len(b.watchers) < batchedFrom || rest <= 0 {
		b.wave(now)
		return
	}
	b.coming = true
	timer := c.set.config.Clock.NewTimer(rest)
	go func() {
		defer timer.Stop()
		select {
		case <-timer.C():
		case <-c.closed: // watchers are notified by then
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		b.coming = false
		b.wave(c.set.config.Clock.Now())
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
