// Package memory is a Store that lives and dies with its process: for tests, and for an API server without etcd.
package memory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/btree"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/apiserver/storage"
)

// keptRevisions is how many revisions are kept at least, unless they are compacted. When there are twice as many the
// older half goes, since history lies in memory here.
const keptRevisions = 10_000

// maxRequest is how many bytes a key and its value may have: etcd's default (--max-request-bytes), so that what fits
// here fits there.
const maxRequest = 3 << 19

// errTooLarge is in etcd's words, since clients know the failure by them.
var errTooLarge = errors.New("etcdserver: request is too large")

func fits(key string, value []byte) error {
	if len(key)+len(value) > maxRequest {
		return &storage.TooLargeError{Err: errTooLarge}
	}
	return nil
}

// Store keeps every version of every key that is not compacted, and the events that made them. Each write makes exactly
// one revision and one event.
type Store struct {
	clock clock.WithTicker
	stop  context.CancelFunc
	done  sync.WaitGroup

	mu        sync.RWMutex
	closed    bool
	revision  int64
	compacted int64
	keys      *btree.BTreeG[*record]
	records   *ownership      // of those that no snapshot has
	log       []storage.Event // of consecutive revisions
	progress  uint64          // counts requests for progress
	changed   chan struct{}   // closed and replaced when a watcher may have work
	expiries  expiries
	rearm     chan struct{} // holds an item when the first expiry has changed
}

var _ storage.Store = (*Store)(nil)

// record is the history of a key, oldest first; a version with a nil value is a removal.
type record struct {
	key      string
	versions []version
	owner    *ownership
}

type version struct {
	revision int64
	value    []byte
	memo     *storage.Memo
}

// at returns the value as of a revision.
func (r *record) at(revision int64) (storage.KeyValue, bool) {
	for i := len(r.versions) - 1; i >= 0; i-- {
		if v := r.versions[i]; v.revision <= revision {
			kv := storage.KeyValue{Key: r.key, Value: v.value, Revision: v.revision, Memo: v.memo}
			return kv, v.value != nil
		}
	}
	return storage.KeyValue{}, false
}

// New makes an empty store at revision 1, as a new etcd is. c times the ends of keys with a ttl; nil is the real clock.
func New(c clock.WithTicker) *Store { return NewAt(c, 1) }

// NewAt makes an empty store at a revision of the caller's choice. A store that follows another one of its kind must
// start beyond it: clients that still hold a revision of the former life are then told that it is gone, and do not wait
// for it.
func NewAt(c clock.WithTicker, revision int64) *Store {
	return start(c, &Store{revision: revision, compacted: revision - 1,
		keys: btree.NewBTreeGOptions(func(a, b *record) bool { return a.key < b.key },
			btree.Options{NoLocks: true})})
}

// start gives a store with its contents what else it needs.
func start(c clock.WithTicker, s *Store) *Store {
	if c == nil {
		c = clock.RealClock{}
	}
	ctx, stop := context.WithCancel(context.Background())
	s.clock, s.stop, s.records = c, stop, new(ownership)
	s.changed, s.rearm = make(chan struct{}), make(chan struct{}, 1)
	s.done.Go(func() { s.expire(ctx) })
	return s
}

// Close ends all watches.
func (s *Store) Close() error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		s.wake()
	}
	s.mu.Unlock()
	s.stop()
	s.done.Wait()
	return nil
}

// Get implements storage.Store.
func (s *Store) Get(_ context.Context, key string) (storage.KeyValue, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return storage.KeyValue{}, storage.ErrClosed
	}
	if current, ok := s.current(key); ok {
		return current, nil
	}
	return storage.KeyValue{}, storage.ErrNotFound
}

func (s *Store) current(key string) (storage.KeyValue, bool) {
	if r, ok := s.keys.Get(&record{key: key}); ok {
		return r.at(s.revision)
	}
	return storage.KeyValue{}, false
}

// List implements storage.Store.
func (s *Store) List(_ context.Context, r storage.Range) (storage.Page, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	page := storage.Page{Revision: s.revision}
	switch {
	case s.closed:
		return storage.Page{}, storage.ErrClosed
	case r.Revision > s.revision:
		return storage.Page{}, storage.ErrFuture
	case r.Revision > 0 && r.Revision < s.compacted:
		return storage.Page{}, storage.ErrCompacted
	case r.Revision > 0:
		page.Revision = r.Revision
	}
	s.keys.Ascend(&record{key: max(r.Prefix, r.From)}, func(rec *record) bool {
		if !inPrefix(rec.key, r.Prefix) {
			return false
		}
		kv, ok := rec.at(page.Revision)
		switch {
		case !ok:
		case r.Limit > 0 && int64(len(page.Items)) == r.Limit:
			page.More = true
			page.Remaining++
		default:
			page.Items = append(page.Items, kv)
		}
		return true
	})
	return page, nil
}

func inPrefix(key, prefix string) bool {
	return key == prefix || strings.HasSuffix(prefix, "/") && strings.HasPrefix(key, prefix)
}

// Create implements storage.Store.
func (s *Store) Create(_ context.Context, key string, value []byte, ttl time.Duration) (int64, error) {
	if err := fits(key, value); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, storage.ErrClosed
	}
	if _, ok := s.current(key); ok {
		return 0, storage.ErrExists
	}
	return s.put(key, value, ttl), nil
}

// Update implements storage.Store.
func (s *Store) Update(_ context.Context, key string, value []byte, expected int64, ttl time.Duration) (int64, error) {
	if err := fits(key, value); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.expect(key, expected); err != nil {
		return 0, err
	}
	return s.put(key, value, ttl), nil
}

// Delete implements storage.Store.
func (s *Store) Delete(_ context.Context, key string, expected int64) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.expect(key, expected); err != nil {
		return 0, err
	}
	return s.append(storage.Event{Type: storage.Delete, KeyValue: storage.KeyValue{Key: key}}), nil
}

func (s *Store) expect(key string, revision int64) error {
	if s.closed {
		return storage.ErrClosed
	}
	current, ok := s.current(key)
	if !ok {
		return &storage.ConflictError{Current: storage.KeyValue{Key: key}}
	}
	if current.Revision != revision {
		return &storage.ConflictError{Current: current}
	}
	return nil
}

func (s *Store) put(key string, value []byte, ttl time.Duration) int64 {
	if value == nil {
		value = []byte{}
	}
	revision := s.append(storage.Event{Type: storage.Put, KeyValue: storage.KeyValue{Key: key, Value: value,
		Memo: new(storage.Memo)}})
	if ttl > 0 {
		s.schedule(expiry{at: s.clock.Now().Add(ttl), key: key, revision: revision})
	}
	return revision
}

// append makes the next revision out of an event, and wakes the watchers.
func (s *Store) append(e storage.Event) int64 {
	s.revision++
	e.Revision = s.revision
	r, ok := s.keys.Get(&record{key: e.Key})
	if ok {
		r = s.own(r)
	} else {
		r = &record{key: e.Key, owner: s.records}
		s.keys.Set(r)
	}
	r.versions = append(r.versions, version{revision: e.Revision, value: e.Value, memo: e.Memo})
	s.log = append(s.log, e)
	s.wake()
	if len(s.log) >= 2*keptRevisions {
		s.compact(s.revision - keptRevisions)
	}
	return e.Revision
}

func (s *Store) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// RequestProgress implements storage.Store.
func (s *Store) RequestProgress(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.progress++
	s.wake()
	return nil
}

// Revision implements storage.Store.
func (s *Store) Revision(context.Context) (int64, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return 0, storage.ErrClosed
	}
	return s.revision, nil
}

// Compact implements storage.Store.
func (s *Store) Compact(_ context.Context, revision int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return storage.ErrClosed
	case revision <= s.compacted:
		return storage.ErrCompacted
	case revision > s.revision:
		return fmt.Errorf("compacting at %d: %w", revision, storage.ErrFuture)
	}
	s.compact(revision)
	return nil
}

func (s *Store) compact(revision int64) {
	s.compacted = revision
	kept, _ := slices.BinarySearchFunc(s.log, revision,
		func(e storage.Event, r int64) int { return int(e.Revision - r) })
	s.log = slices.Clone(s.log[kept:])
	var shorter []*record
	s.keys.Scan(func(r *record) bool {
		if r.superseded(revision) > 0 {
			shorter = append(shorter, r)
		}
		return true
	})
	for _, r := range shorter {
		if first := r.superseded(revision); first == len(r.versions) {
			s.keys.Delete(r)
		} else {
			r = s.own(r)
			r.versions = slices.Clone(r.versions[first:])
		}
	}
}

// superseded counts the versions before the one that holds at revision, and that one too if it is a removal.
func (r *record) superseded(revision int64) int {
	first := 0
	for first+1 < len(r.versions) && r.versions[first+1].revision <= revision {
		first++
	}
	if v := r.versions[first]; v.value == nil && v.revision <= revision {
		first++
	}
	return first
}
