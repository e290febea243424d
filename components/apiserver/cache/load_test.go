package cache

import (
	"context"
	"errors"
	"sync"
	"testing"

	"quintet.dev/quintet/components/apiserver/storage"
	"quintet.dev/quintet/components/apiserver/storage/memory"
)

// meddled calls listing, once, before all is listed.
type meddled struct {
	storage.Store
	listing func()
}

func (m *meddled) List(ctx context.Context, r storage.Range) (storage.Page, error) {
	if before := m.listing; before != nil && r.Prefix == "/registry/" {
		m.listing = nil
		before()
	}
	return m.Store.List(ctx, r)
}

// TestAddedWhileLoading: a cache that comes while all is listed, and is filled before that, lacks nothing of what was
// written between the two.
func TestAddedWhileLoading(t *testing.T) {
	store := &meddled{Store: memory.New(nil)}
	defer store.Close()
	set, err := NewSet(Config{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	var pods *Cache
	store.listing = func() {
		pods = set.Add(podKind())
		if err := pods.WaitReady(t.Context()); err != nil {
			t.Error(err)
		}
		_, value, err := pods.codec.encode(pod("a", "x", ""))
		if err == nil {
			_, err = store.Create(t.Context(), pods.Key("a", "x"), value, 0)
		}
		if err != nil {
			t.Error(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = set.Run(ctx) })
	defer running.Wait()
	defer cancel()
	if err := set.reached.wait(t.Context(), set.config.Clock, 1, func(context.Context) {}); err != nil {
		t.Fatal(err)
	}
	if _, err := pods.Get(t.Context(), pods.Key("a", "x"), ""); err != nil {
		t.Error(err)
	}
}

// shut lists nothing of one resource, as a store that has lost it or can't be reached.
type shut struct {
	storage.Store
	prefix string
	tried  chan struct{}
}

func (s *shut) List(ctx context.Context, r storage.Range) (storage.Page, error) {
	if r.Prefix != s.prefix {
		return s.Store.List(ctx, r)
	}
	select {
	case s.tried <- struct{}{}:
	case <-ctx.Done():
	}
	return storage.Page{}, errors.New("out of reach")
}

// TestRemovedCacheIsNotFilled: a cache that is removed before its first list succeeded is no longer filled.
func TestRemovedCacheIsNotFilled(t *testing.T) {
	store := &shut{Store: memory.New(nil), prefix: "/registry/late/", tried: make(chan struct{})}
	f := start(t, store, Config{})
	kind := podKind()
	kind.Prefix = "late"
	late := f.set.Add(kind)
	for range 2 {
		<-store.tried
	}
	f.set.Remove(late)
	over := make(chan struct{})
	go func() {
		f.set.loadOne(f.ctx, late)
		close(over)
	}()
	for range 3 { // what was under way may come to its end
		select {
		case <-over:
			return
		case <-store.tried:
		}
	}
	t.Error("still asked for")
}

// mute takes no request for progress before the one who asks has left, as an etcd whose watches have lost their
// connection.
type mute struct {
	storage.Store
	leave func()
	held  bool // though he has left
}

func (m *mute) RequestProgress(ctx context.Context) error {
	m.leave()
	m.held = m.held || ctx.Err() == nil
	return ctx.Err()
}

// TestReadsDontWaitForNudges: who reads is held up no longer than he has time, though the store can't be asked how far
// it is.
func TestReadsDontWaitForNudges(t *testing.T) {
	store := &mute{Store: memory.New(nil)}
	f := start(t, store, Config{})
	brief, leave := context.WithCancel(f.ctx)
	store.leave = leave
	if _, err := f.pods.Get(brief, f.pods.Key("a", "x"), "1000000000000000"); err == nil || store.held {
		t.Errorf("got %v, held up: %v", err, store.held)
	}
}
