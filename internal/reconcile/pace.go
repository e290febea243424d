package reconcile

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// The pause after a reconciliation that looked at many objects. It is some ten times of what looking takes, so that a
// key costs a tenth of a processor at most, however often it is added and however many objects it has: else the cost
// of n objects that change one after another is n². Keys with fewer objects than paceFrom have no pause.
const (
	paceFrom  = 256
	paceEvery = 20 * time.Microsecond // for each object
)

// pace delays keys. It goes by the machine's time, whatever clock a test moves: it spares processors. It is safe for
// concurrent use.
type pace[K comparable] struct {
	clock clock.WithDelayedExecution
	add   func(K)

	mu   sync.Mutex
	keys map[K]*pause
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
	old.until = p.clock.Now().Add(time.Duration(n) * paceEvery)
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
