// Package expectations keeps a controller from acting twice on one cause: what it wrote is remembered until the
// informer has shown it, and until then the controller doesn't count.
package expectations

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// lifetime is after how long a write that was never observed is given up, as a missed event must not stop a
// controller for good.
const lifetime = 5 * time.Minute

// Tracker holds the outstanding writes of each key. It is safe for concurrent use.
type Tracker struct {
	clock   clock.PassiveClock
	mu      sync.Mutex
	pending map[string]*pending
}

type pending struct {
	creations int
	deletions map[types.UID]struct{}
	since     time.Time
}

// New makes an empty tracker.
func New(c clock.PassiveClock) *Tracker {
	return &Tracker{clock: c, pending: map[string]*pending{}}
}

// ExpectCreations notes that count objects are about to be created for key.
func (t *Tracker) ExpectCreations(key string, count int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.entry(key)
	p.creations += count
	p.since = t.clock.Now()
}

// Create expects a creation for key, which create makes, and no longer if that fails.
func (t *Tracker) Create(key string, create func() error) error {
	t.ExpectCreations(key, 1)
	err := create()
	if err != nil {
		t.CreationObserved(key)
	}
	return err
}

// ExpectDeletions notes that the objects with uids are about to be deleted for key.
func (t *Tracker) ExpectDeletions(key string, uids ...types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.entry(key)
	for _, uid := range uids {
		p.deletions[uid] = struct{}{}
	}
	p.since = t.clock.Now()
}

// CreationObserved takes one creation off, because it was seen or because it failed.
func (t *Tracker) CreationObserved(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.pending[key]; p != nil && p.creations > 0 {
		p.creations--
	}
}

// DeletionObserved takes the deletion of uid off, because it was seen or because it failed. An object is counted
// once, however many events tell of its end.
func (t *Tracker) DeletionObserved(key string, uid types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.pending[key]; p != nil {
		delete(p.deletions, uid)
	}
}

// Satisfied tells whether everything written for key has been observed, or was given up.
func (t *Tracker) Satisfied(key string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.pending[key]
	if p == nil {
		return true
	}
	if (p.creations > 0 || len(p.deletions) > 0) && t.clock.Since(p.since) < lifetime {
		return false
	}
	delete(t.pending, key)
	return true
}

// Forget drops everything about key.
func (t *Tracker) Forget(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.pending, key)
}

func (t *Tracker) entry(key string) *pending {
	p := t.pending[key]
	if p == nil {
		p = &pending{deletions: map[types.UID]struct{}{}}
		t.pending[key] = p
	}
	return p
}
