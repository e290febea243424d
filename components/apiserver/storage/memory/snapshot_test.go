package memory

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/apiserver/storage"
	"quintet.dev/quintet/components/apiserver/storage/storagetest"
)

// TestContractOfForks: a store that goes on from a snapshot is a store as any.
func TestContractOfForks(t *testing.T) {
	storagetest.Run(t, func(t *testing.T) storage.Store {
		first := New(nil)
		t.Cleanup(func() { first.Close() })
		s := NewFrom(nil, first.Snapshot())
		t.Cleanup(func() { s.Close() })
		return s
	})
}

// contents reads all keys as of a revision; 0 is now.
func contents(t *testing.T, s *Store, revision int64) map[string]string {
	t.Helper()
	page, err := s.List(t.Context(), storage.Range{Prefix: "/", Revision: revision})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, kv := range page.Items {
		all[kv.Key] = fmt.Sprintf("%s@%d", kv.Value, kv.Revision)
	}
	return all
}

// change makes one random write.
func change(t *testing.T, s *Store, random *rand.Rand) {
	t.Helper()
	key := fmt.Sprintf("/%d", random.IntN(20))
	value := fmt.Appendf(nil, "%d", random.Int())
	kv, err := s.Get(t.Context(), key)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		_, err = s.Create(t.Context(), key, value, 0)
	case err != nil:
	case random.IntN(3) == 0:
		_, err = s.Delete(t.Context(), key, kv.Revision)
	default:
		_, err = s.Update(t.Context(), key, value, kv.Revision, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	if random.IntN(30) == 0 {
		if err := s.Compact(t.Context(), s.revision-int64(random.IntN(3))); err != nil && !errors.Is(err,
			storage.ErrCompacted) {
			t.Fatal(err)
		}
	}
}

// TestForksAreApart: whatever is written to a store, its forks and theirs, and however they are compacted, each has its
// own writes only, and a snapshot what was there when it was taken.
func TestForksAreApart(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 1))
		type life struct {
			store *Store
			want  map[string]string
		}
		first := New(nil)
		lives := []*life{{store: first, want: map[string]string{}}}
		snapshots := map[*Snapshot]map[string]string{}
		for range 400 {
			l := lives[random.IntN(len(lives))]
			if random.IntN(40) > 0 {
				change(t, l.store, random)
				l.want = contents(t, l.store, 0)
				continue
			}
			snapshot := l.store.Snapshot()
			snapshots[snapshot] = l.want
			lives = append(lives, &life{store: NewFrom(nil, snapshot), want: l.want})
		}
		for i, l := range lives {
			if got := contents(t, l.store, 0); !maps.Equal(got, l.want) {
				t.Fatalf("seed %d: store %d has %v, want %v", seed, i, got, l.want)
			}
		}
		for snapshot, want := range snapshots {
			s := NewFrom(nil, snapshot)
			if got := contents(t, s, 0); !maps.Equal(got, want) || snapshot.Len() != len(want) {
				t.Fatalf("seed %d: a snapshot has %d keys, %v, want %v", seed, snapshot.Len(), got, want)
			}
			s.Close()
		}
		for _, l := range lives {
			l.store.Close()
		}
	}
}

// TestForkGoesOn: a fork has the revision and the history of its origin, and its watches see its own writes.
func TestForkGoesOn(t *testing.T) {
	s := New(nil)
	defer s.Close()
	one, _ := s.Create(t.Context(), "/a", []byte("1"), 0)
	two, _ := s.Update(t.Context(), "/a", []byte("2"), one, 0)
	fork := NewFrom(nil, s.Snapshot())
	defer fork.Close()
	if _, err := s.Delete(t.Context(), "/a", two); err != nil {
		t.Fatal(err)
	}
	if got := contents(t, fork, one)["/a"]; got != fmt.Sprintf("1@%d", one) {
		t.Errorf("at %d: %q", one, got)
	}
	w := fork.Watch(t.Context(), "/", one)
	if events := <-w.Events(); len(events) != 1 || string(events[0].Value) != "2" {
		t.Errorf("history: %+v", events)
	}
	three, err := fork.Update(t.Context(), "/a", []byte("3"), two, 0)
	if err != nil || three != two+1 {
		t.Fatal(three, err)
	}
	if events := <-w.Events(); len(events) != 1 || string(events[0].Value) != "3" {
		t.Errorf("news: %+v", events)
	}
}

// TestRestore: the contents are those of the snapshot, later revisions are never given again, and watches that go on
// from before end.
func TestRestore(t *testing.T) {
	s := New(nil)
	defer s.Close()
	one, _ := s.Create(t.Context(), "/a", []byte("1"), 0)
	snapshot := s.Snapshot()
	want := contents(t, s, 0)
	last, _ := s.Create(t.Context(), "/b", []byte("2"), 0)
	running := s.Watch(t.Context(), "/", last)
	if err := s.Restore(snapshot); err != nil {
		t.Fatal(err)
	}
	if got := contents(t, s, 0); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for from, w := range map[int64]storage.Watcher{last: running, one: s.Watch(t.Context(), "/", one)} {
		for range w.Events() {
			t.Errorf("a watch from %d goes on", from)
		}
		if !errors.Is(w.Err(), storage.ErrCompacted) {
			t.Errorf("a watch from %d ends with %v", from, w.Err())
		}
	}
	now, _ := s.Revision(t.Context())
	next, err := s.Update(t.Context(), "/a", []byte("3"), one, 0)
	if err != nil || now <= last || next != now+1 {
		t.Errorf("revisions %d, %d after %d: %v", now, next, last, err)
	}
	s.Close()
	if err := s.Restore(snapshot); !errors.Is(err, storage.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// TestKeysOfForksEnd: each store ends the keys that had a time to live when it was made.
func TestKeysOfForksEnd(t *testing.T) {
	steps := testingclock.NewFakeClock(time.Now())
	s := New(steps)
	defer s.Close()
	if _, err := s.Create(t.Context(), "/a", nil, time.Minute); err != nil {
		t.Fatal(err)
	}
	fork := NewFrom(steps, s.Snapshot())
	defer fork.Close()
	kv, _ := s.Get(t.Context(), "/a")
	if _, err := s.Delete(t.Context(), "/a", kv.Revision); err != nil {
		t.Fatal(err)
	}
	w := fork.Watch(t.Context(), "/", fork.revision)
	for !steps.HasWaiters() { // until the store waits for the end
		time.Sleep(time.Millisecond)
	}
	steps.Step(2 * time.Minute)
	if events := <-w.Events(); len(events) != 1 || events[0].Type != storage.Delete {
		t.Errorf("%+v", events)
	}
}

// TestSnapshotWhileWriting: snapshots and their forks may be made by many at once.
func TestSnapshotWhileWriting(t *testing.T) {
	s := New(nil)
	defer s.Close()
	for i := range 100 {
		if _, err := s.Create(t.Context(), fmt.Sprintf("/%d", i), []byte("0"), 0); err != nil {
			t.Fatal(err)
		}
	}
	snapshot := s.Snapshot()
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() {
			fork := NewFrom(nil, snapshot)
			defer fork.Close()
			random := rand.New(rand.NewPCG(uint64(i), 2))
			for range 200 {
				change(t, fork, random)
			}
		})
		group.Go(func() { s.Snapshot() })
	}
	random := rand.New(rand.NewPCG(9, 2))
	for range 200 {
		change(t, s, random)
	}
	group.Wait()
	if snapshot.Len() != 100 {
		t.Errorf("the snapshot has %d keys", snapshot.Len())
	}
}
