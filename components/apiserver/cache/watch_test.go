package cache

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// TestNoBookmarkAfterTheEnd: a watch that has ended may have missed something, so it promises nothing any more.
func TestNoBookmarkAfterTheEnd(t *testing.T) {
	f := startMemory(t)
	w, err := f.pods.Watch(f.ctx, WatchOptions{Bookmarks: true})
	f.must(err)
	defer w.Close()
	f.create("ns", "a", "n")
	f.list(ListOptions{}) // the event has come
	f.pods.state.mu.Lock()
	f.pods.state.watchers.endAll(errExpired("over"))
	f.pods.state.mu.Unlock()
	events, err := w.Next(f.ctx) // the initial ones: there are none
	for err == nil && len(events) == 0 {
		events, err = w.Next(f.ctx)
	}
	f.must(err)
	if len(events) != 1 || events[0].Type != Added {
		t.Errorf("got %v", events)
	}
	if events, err := w.bookmark(); len(events) > 0 || !apierrors.IsResourceExpired(err) {
		t.Errorf("got %v, %v", events, err)
	}
}

// TestQueuedBeforeTheEnd: what was queued is told, without a bookmark behind it.
func TestQueuedBeforeTheEnd(t *testing.T) {
	f := startMemory(t)
	w, err := f.pods.Watch(f.ctx,
		WatchOptions{Bookmarks: true, ResourceVersion: f.create("ns", "a", "n").Object.GetResourceVersion()})
	f.must(err)
	defer w.Close()
	f.create("ns", "b", "n")
	f.list(ListOptions{})
	w.end(errExpired("over"))
	if events, err := w.bookmark(); err != nil || len(events) != 1 || events[0].Type != Added {
		t.Errorf("got %v, %v", events, err)
	}
	if _, err := w.Next(f.ctx); !apierrors.IsResourceExpired(err) {
		t.Errorf("got %v", err)
	}
}

// TestFirstContentOnly: a list of one cache doesn't overwrite what a list of all has brought meanwhile.
func TestFirstContentOnly(t *testing.T) {
	f := startMemory(t)
	f.create("ns", "a", "n")
	f.list(ListOptions{})
	f.pods.state.installFirst(nil, 1)
	f.wantNames(f.list(ListOptions{}), "ns/a")
}
