package cache

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/apiserver/codec"
	"quintet.dev/quintet/components/apiserver/storage"
	"quintet.dev/quintet/components/apiserver/storage/memory"
)

// restorable is a store that can be exchanged for another; watches stay with the one they began at, as silent as those
// of an etcd that was restored are.
type restorable struct{ now atomic.Pointer[memory.Store] }

func (r *restorable) Get(ctx context.Context, key string) (storage.KeyValue, error) {
	return r.now.Load().Get(ctx, key)
}
func (r *restorable) List(ctx context.Context, o storage.Range) (storage.Page, error) {
	return r.now.Load().List(ctx, o)
}
func (r *restorable) Create(ctx context.Context, key string, value []byte, ttl time.Duration) (int64, error) {
	return r.now.Load().Create(ctx, key, value, ttl)
}
func (r *restorable) Update(ctx context.Context, key string, value []byte, expected int64, ttl time.Duration) (int64,
	error) {
	return r.now.Load().Update(ctx, key, value, expected, ttl)
}
func (r *restorable) Delete(ctx context.Context, key string, expected int64) (int64, error) {
	return r.now.Load().Delete(ctx, key, expected)
}
func (r *restorable) Watch(ctx context.Context, prefix string, after int64) storage.Watcher {
	return r.now.Load().Watch(ctx, prefix, after)
}
func (r *restorable) RequestProgress(ctx context.Context) error {
	return r.now.Load().RequestProgress(ctx)
}
func (r *restorable) Revision(ctx context.Context) (int64, error) { return r.now.Load().Revision(ctx) }
func (r *restorable) Compact(ctx context.Context, revision int64) error {
	return r.now.Load().Compact(ctx, revision)
}
func (r *restorable) Close() error { return r.now.Load().Close() }

// TestRestoredStore: when the store is at an older revision than before, however that is detected, the caches are
// refilled from it, and watches end.
func TestRestoredStore(t *testing.T) {
	finders := map[string]func(f *fixture) error{
		"read": func(f *fixture) error {
			_, err := f.pods.Get(f.ctx, f.pods.Key("a", "late"), "")
			return err
		},
		"create": func(f *fixture) error {
			_, err := f.pods.Create(f.ctx, f.pods.Key("a", "other"), pod("a", "other", ""), 0)
			return err
		},
	}
	for name, find := range finders {
		t.Run(name, func(t *testing.T) {
			store := &restorable{}
			first := memory.NewAt(clock.RealClock{}, 1000)
			store.now.Store(first)
			f := start(t, store, Config{})
			f.create("a", "late", "")
			f.list(ListOptions{}) // the store is followed
			w, err := f.pods.Watch(f.ctx, WatchOptions{ResourceVersion: formatRevision(f.set.Revision())})
			f.must(err)
			defer w.Close()

			backup := memory.NewAt(clock.RealClock{}, 10)
			early := pod("a", "early", "")
			_, value, err := f.pods.codec.encode(early)
			f.must(err)
			_, err = backup.Create(f.ctx, f.pods.Key("a", "early"), value, 0)
			f.must(err)
			store.now.Store(backup)
			t.Cleanup(func() { _ = first.Close() })

			if err := find(f); err != nil && !apierrors.IsServiceUnavailable(err) {
				t.Errorf("who finds out: %v", err)
			}
			for err = nil; err == nil; {
				_, err = w.Next(f.ctx)
			}
			if !apierrors.IsResourceExpired(err) {
				t.Errorf("watch: %v", err)
			}
			for {
				l, err := f.pods.List(f.ctx, ListOptions{})
				if apierrors.IsServiceUnavailable(err) {
					continue // while the caches are filled
				}
				f.must(err)
				if len(l.Entries) == 0 || l.Entries[0].Object.GetName() != "early" || f.set.Revision() >= 1000 {
					t.Errorf("got %v at %d", l.Entries, f.set.Revision())
				}
				break
			}
			if _, err := f.pods.Get(f.ctx, f.pods.Key("a", "late"), ""); !apierrors.IsNotFound(err) {
				t.Errorf("what is not in the backup: %v", err)
			}
		})
	}
}

// TestRestoredStoreWhileFilled: a list that is made as soon as a cache is filled again gets no earlier revision, from
// which a watch would be silent until the store had caught up.
func TestRestoredStoreWhileFilled(t *testing.T) {
	store := &restorable{}
	first := memory.NewAt(clock.RealClock{}, 1000)
	store.now.Store(first)
	f := start(t, store, Config{})
	row := podKind()
	row.Resource, row.Prefix = "others", "others"
	later := f.set.Add(row)
	f.must(later.WaitReady(f.ctx))
	w, err := f.pods.Watch(f.ctx, WatchOptions{ResourceVersion: formatRevision(f.create("a", "x", "").Revision)})
	f.must(err)
	defer w.Close()
	f.list(ListOptions{}) // the store is followed
	store.now.Store(memory.NewAt(clock.RealClock{}, 10))
	t.Cleanup(func() { _ = first.Close() })

	later.mu.Lock() // so that it is filled after the test has looked
	_, err = f.pods.Create(f.ctx, f.pods.Key("a", "y"), pod("a", "y", ""), 0)
	for err == nil {
		_, err = w.Next(f.ctx)
	}
	l, listed := f.pods.List(f.ctx, ListOptions{ResourceVersion: "0"})
	later.mu.Unlock()
	f.must(listed)
	if !apierrors.IsResourceExpired(err) || l.Revision >= 1000 {
		t.Errorf("the watch ended with %v, the list is of %d", err, l.Revision)
	}
	if e, err := f.pods.Get(f.ctx, f.pods.Key("a", "y"), ""); err != nil || e.Revision >= 1000 {
		t.Errorf("what was written then: %v, %v", e, err)
	}
}

// TestRestoredStoreZipped: other objects may have the revisions that are known from before. Nothing compressed then is
// shown again.
func TestRestoredStoreZipped(t *testing.T) {
	store := &restorable{}
	first := memory.NewAt(clock.RealClock{}, 10)
	store.now.Store(first)
	t.Cleanup(func() { _ = first.Close() })
	f := start(t, store, Config{})
	backup := memory.NewAt(clock.RealClock{}, 10)
	for i := range runsFrom {
		name := fmt.Sprintf("p%03d", i)
		f.create("a", name, "before")
		_, value, err := f.pods.codec.encode(pod("a", name, "after"))
		f.must(err)
		_, err = backup.Create(f.ctx, f.pods.Key("a", name), value, 0)
		f.must(err)
	}
	f.create("b", "late", "before")
	format := f.pods.Format(corev1.SchemeGroupVersion, codec.JSON, Whole)
	zipped := func() string {
		var out bytes.Buffer
		f.must(f.list(ListOptions{Namespace: "a"}).WriteZipped(&out, format,
			codec.List{Kind: corev1.SchemeGroupVersion.WithKind("PodList"), Item: format.Kind}))
		r, err := gzip.NewReader(&out)
		f.must(err)
		text, err := io.ReadAll(r)
		f.must(err)
		return string(text)
	}
	zipped()
	store.now.Store(backup)
	for {
		_, err := f.pods.Get(f.ctx, f.pods.Key("b", "late"), "")
		if apierrors.IsNotFound(err) {
			break
		}
		if !apierrors.IsServiceUnavailable(err) {
			t.Fatalf("what is not in the backup: %v", err)
		}
	}
	if text := zipped(); bytes.Contains([]byte(text), []byte("before")) {
		t.Error("objects of before the backup are listed")
	}
}

// TestRevisionOfRestoredState: what is seen of a cache that is filled from a store that went back has no revision of
// before.
func TestRevisionOfRestoredState(t *testing.T) {
	const before, restored = 1000, 10
	f := startMemory(t)
	f.set.reached.advance(before)
	f.pods.state.install([]*Entry{{Key: f.pods.Key("a", "late"), Revision: before, Object: pod("a", "late", "")}}, before)
	var filling sync.WaitGroup
	defer filling.Wait()
	over := make(chan struct{})
	defer close(over)
	filling.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
			}
			f.pods.Stats() // behind readers, who have looked what is reached
			f.set.reached.withdraw(restored)
			f.pods.state.install(nil, restored)
			f.pods.state.install([]*Entry{{Key: f.pods.Key("a", "late"), Revision: before, Object: pod("a", "late", "")}},
				before)
			f.set.reached.advance(before)
		}
	})
	var readers sync.WaitGroup
	defer readers.Wait()
	for range 8 { // who stand in line for the cache while it is filled
		readers.Go(func() {
			for range 5_000 {
				if s, revision := f.pods.state.snapshotNow(); s.items.Len() == 0 && revision >= before {
					t.Errorf("what was there at %d is said to be of %d", s.from, revision)
					return
				}
			}
		})
	}
}

// TestOnceBack: who noticed late that the store went back doesn't make the caches be filled again.
func TestOnceBack(t *testing.T) {
	f := startMemory(t)
	filled := 0
	end := context.CancelCauseFunc(func(error) { filled++ })
	f.set.refill.Store(&end)
	f.set.reached.advance(1000)
	f.set.wrote(11, 1000)
	f.set.reached.withdraw(10)
	f.set.reached.advance(12)
	f.set.wrote(12, 1000)
	if filled != 1 {
		t.Errorf("filled %d times", filled)
	}
}

// TestOfFormerWatch: a cache that has no state yet when all are filled from a store that went back takes nothing from
// the watch before.
func TestOfFormerWatch(t *testing.T) {
	f := startMemory(t)
	c := newCache(f.set, podKind())
	put := func(name string, revision int64) {
		_, value, err := c.codec.encode(pod("a", name, ""))
		f.must(err)
		c.state.apply(storage.Event{KeyValue: storage.KeyValue{Key: c.Key("a", name), Value: value, Revision: revision}})
	}
	put("late", 1000)
	c.state.install(nil, 10)
	put("next", 11)
	c.PeekList("", func(e *Entry) bool {
		if e.Object.GetName() != "next" {
			t.Errorf("there is %s", e.Key)
		}
		return true
	})
	if stats := c.Stats(); stats.Objects != 1 || stats.Revision != 11 {
		t.Errorf("%+v", stats)
	}
}

// TestPagesOfRestoredStore: what was forgotten of a store says nothing of what it was replaced by.
func TestPagesOfRestoredStore(t *testing.T) {
	store := &restorable{}
	first := memory.NewAt(clock.RealClock{}, 1000)
	store.now.Store(first)
	t.Cleanup(func() { _ = first.Close() })
	f := start(t, store, Config{})
	f.list(ListOptions{})
	f.set.Forgotten(f.set.Revision())
	store.now.Store(memory.NewAt(clock.RealClock{}, 10))
	for {
		_, err := f.pods.Get(f.ctx, f.pods.Key("a", "x"), "")
		if apierrors.IsNotFound(err) {
			break
		}
		if !apierrors.IsServiceUnavailable(err) {
			t.Fatal(err)
		}
	}
	f.create("a", "x", "")
	f.create("a", "y", "")
	page := f.list(ListOptions{Limit: 1})
	f.wantNames(f.list(ListOptions{Limit: 1, Continue: page.Continue}), "a/y")
}
