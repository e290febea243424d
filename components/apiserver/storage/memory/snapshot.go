package memory

import (
	"slices"
	"sync"

	"github.com/tidwall/btree"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/apiserver/storage"
)

// Snapshot is what a store held at one revision, with its history. It does not change, and shares memory with the store
// and with all stores that are made from it: what is written after it is copied first, key by key. It is safe for
// concurrent use.
type Snapshot struct {
	revision, compacted int64
	log                 []storage.Event
	expiries            expiries

	mu   sync.Mutex // copying a tree marks both as shared
	keys *btree.BTreeG[*record]
}

// Snapshot returns what the store holds now, in constant time.
func (s *Store) Snapshot() *Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records = new(ownership)
	return &Snapshot{
		revision: s.revision, compacted: s.compacted, log: slices.Clip(s.log), expiries: slices.Clone(s.expiries),
		keys: s.keys.Copy(),
	}
}

// Revision is that of the store when the snapshot was taken.
func (s *Snapshot) Revision() int64 { return s.revision }

// Len is the number of keys.
func (s *Snapshot) Len() int {
	n := 0
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys.Scan(func(r *record) bool {
		if _, ok := r.at(s.revision); ok {
			n++
		}
		return true
	})
	return n
}

func (s *Snapshot) tree() *btree.BTreeG[*record] {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys.Copy()
}

// NewFrom makes a store that goes on from a snapshot: at its revision, with its history, and keys that end when they
// would have. c is as in New.
func NewFrom(c clock.WithTicker, from *Snapshot) *Store {
	return start(c, &Store{
		revision: from.revision, compacted: from.compacted, keys: from.tree(), log: from.log,
		expiries: slices.Clone(from.expiries),
	})
}

// Restore makes the store hold what it held at a snapshot. Its revision grows all the same, and its history begins
// with that: watches that go on from before end with ErrCompacted, so that no client takes the past for what follows.
func (s *Store) Restore(from *Snapshot) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return storage.ErrClosed
	}
	s.records = new(ownership)
	s.keys, s.expiries = from.tree(), slices.Clone(from.expiries)
	s.revision = max(s.revision, from.revision) + 2 // a watch from just before it must not go on either
	s.compacted, s.log = s.revision, nil
	s.wake()
	select {
	case s.rearm <- struct{}{}:
	default:
	}
	return nil
}

// ownership marks the records that a store may change: those that it made since its last snapshot. It has a size, so
// that no two are at one address.
type ownership struct{ _ byte }

// own returns a record for the store to change: itself, or a copy in its place where a snapshot has it too.
func (s *Store) own(r *record) *record {
	if r.owner == s.records {
		return r
	}
	r = &record{key: r.key, versions: slices.Clip(r.versions), owner: s.records}
	s.keys.Set(r)
	return r
}
