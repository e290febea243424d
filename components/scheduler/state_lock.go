package scheduler

import (
	"sync"

	"quintet.dev/quintet/components/scheduler/snapshot"
)

// stateLock guards the snapshot. A decision holds it but while it waits for extenders: the snapshot is frozen then, so
// changes of informers are kept, and made in order when the decision ends. Make it with newStateLock.
type stateLock struct {
	mu     sync.Mutex
	thawed *sync.Cond
	frozen bool
	kept   []func() // changes that came while the snapshot was frozen
}

func newStateLock() *stateLock {
	l := &stateLock{}
	l.thawed = sync.NewCond(&l.mu)
	return l
}

// lock waits for a decision that is going on.
func (l *stateLock) lock() {
	l.mu.Lock()
	for l.frozen {
		l.thawed.Wait()
	}
}

// unlock makes the changes that were kept.
func (l *stateLock) unlock() {
	defer l.mu.Unlock()
	for _, change := range l.kept {
		change()
	}
	l.kept, l.frozen = nil, false
	l.thawed.Broadcast()
}

// release calls do, which waits for others, without the lock; the caller holds it.
func (l *stateLock) release(do func()) {
	l.frozen = true
	l.mu.Unlock()
	defer l.mu.Lock()
	do()
}

// change makes a change, or keeps it for the end of the decision that is going on. It does not wait for extenders.
func (l *stateLock) change(do func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.frozen {
		l.kept = append(l.kept, do)
		return
	}
	do()
}

// locked calls do with the snapshot.
func (s *Scheduler) locked(do func(*snapshot.Snapshot)) {
	s.state.lock()
	defer s.state.unlock()
	do(s.snapshot)
}
