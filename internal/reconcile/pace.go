package reconcile

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// The pause after a reconciliation that looked at many objects. It is some ten times of what looking takes, and pauses
// of several keys follow each other, so that all keys of a loop cost a tenth of a processor, however often they are
// added and however many objects they have: else the cost of n objects that change one after another is n². Keys with
// fewer objects than paceFrom have no pause, and what others add to a key's own pause ends at longestPause.
const (
	paceFrom     = 256
	paceEvery    = 20 * time.Microsecond // for each object
	longestPause = time.Second
)

// pace delays keys. It goes by the machine's time, whatever clock a test moves: it spares processors. It is safe for
// concurrent use.
type pace[K comparable] struct {
	clock clock.WithDelayedExecution
	add   func(K)

	mu     sync.Mutex
	keys   map[K]*pause
	paused time.Time // when the pauses that have begun are over
}

// pause is that of a key.
type pause struct {
	until   time.Time
	waiting bool // the key will be added then
}

func newPace[K comparable](c clock.WithDelayedExecution, add func(K)) *pace[K] {
	return &pace[K]{clock: c, add: add, keys: map[K]*pause{}}
}

// looked begins the pause of a key whose reconciliation looks at n objects.
func (p *pace[K]) looked(key K, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := p.keys[key]
	if n < paceFrom {
		if old != nil && !old.waiting {
			delete(p.keys, key)
		}
		return
	}
	if old == nil {
		old = &pause{}
		p.keys[key] = old
	}
	now, alone := p.clock.Now(), time.Duration(n)*paceEvery
	if p.paused.Before(now) {
		p.paused = now
	}
	p.paused = p.paused.Add(alone)
	if latest := now.Add(max(alone, longestPause)); p.paused.After(latest) {
		p.paused = latest
	}
	old.until = p.paused
}

// put adds a key now, or after its pause.
func (p *pace[K]) put(key K) {
	p.mu.Lock()
	paused := p.keys[key]
	if paused != nil && !paused.waiting {
		if left := paused.until.Sub(p.clock.Now()); left > 0 {
			paused.waiting = true
			p.clock.AfterFunc(left, func() { p.over(key) })
		} else {
			delete(p.keys, key)
			paused = nil
		}
	}
	p.mu.Unlock()
	if paused == nil {
		p.add(key)
	}
}

// over adds a key after its pause.
func (p *pace[K]) over(key K) {
	p.mu.Lock()
	delete(p.keys, key)
	p.mu.Unlock()
	p.add(key)
}
