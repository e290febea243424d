package cache

import "time"

// Where many watch the same, most of what an event costs is to wake each of them and to send a frame to each. So a bucket with
// many watchers is woken in waves: the first event at once, and what comes until the next wave together. The distance of waves
// grows with the number of watchers, as does the time that one takes.
const (
	// crowd is the number of watchers from which on they are woken in waves.
	crowd = 32
	// waveShare is the distance for each watcher: some times what the server takes to send to it.
	waveShare = 50 * time.Microsecond
	waveMax   = 20 * time.Millisecond
)

// waves are those of a bucket; they are guarded by Cache.mu.
type waves struct {
	asleep []*Watcher // have something to read and don't know it
	next   time.Time  // not before
	coming bool       // somebody waits for next
}

// rouseAll wakes those who were dispatched something. It is called with c.mu held, when no more of the same revision comes.
func (c *Cache) rouseAll() {
	for i, b := range c.watchers.asleep {
		c.rouse(b)
		c.watchers.asleep[i] = nil
	}
	c.watchers.asleep = c.watchers.asleep[:0]
}

// rouse wakes the watchers that asleep has, now or with the next wave.
func (c *Cache) rouse(b *bucket) {
	if len(b.asleep) == 0 || b.coming {
		return
	}
	now := c.set.config.Clock.Now()
	rest := b.next.Sub(now)
	if len(b.watchers) < crowd || rest <= 0 {
		b.wave(now)
		return
	}
	b.coming = true
	timer := c.set.config.Clock.NewTimer(rest)
	go func() {
		defer timer.Stop()
		select {
		case <-timer.C():
		case <-c.closed: // those who watch are told by then
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
		w.rouse()
		b.asleep[i] = nil
	}
	b.asleep = b.asleep[:0]
	b.next = now.Add(min(time.Duration(len(b.watchers))*waveShare, waveMax))
}
