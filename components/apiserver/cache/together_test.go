package cache

import (
	"sync"
	"testing"

	"quintet.dev/quintet/components/apiserver/storage"
)

// TestOneRevision: all changes of one transaction, such as the removal of keys whose lease has ended, are seen of every
// object, and a watch that begins meanwhile misses none of them.
func TestOneRevision(t *testing.T) {
	f := startMemory(t)
	f.create("a", "x", "n1")
	f.create("a", "y", "n1")
	last := f.create("b", "z", "n2")
	f.list(ListOptions{})
	w, err := f.pods.Watch(f.ctx, WatchOptions{ResourceVersion: formatRevision(last.Revision)})
	f.must(err)
	defer w.Close()
	var batch []storage.Event
	for _, name := range []string{"a/x", "a/y", "b/z"} {
		batch = append(batch, storage.Event{Type: storage.Delete,
			KeyValue: storage.KeyValue{Key: f.pods.keys.prefix + name, Revision: last.Revision + 1}})
	}
	f.set.apply(batch)
	f.pods.PeekList("", func(e *Entry) bool {
		t.Errorf("%s is still there", e.Key)
		return true
	})
	events, err := w.Next(f.ctx)
	f.must(err)
	if len(events) != len(batch) {
		t.Errorf("the watch was told of %d changes", len(events))
	}
}

// TestBookmarksOfOneRevision: no bookmark is sent for a revision between two of its changes, nor for one of them alone:
// a client that resumes from that revision would never see the other.
func TestBookmarksOfOneRevision(t *testing.T) {
	const rounds = 2000
	f := startMemory(t)
	first := f.create("a", "x", "n1")
	f.list(ListOptions{})
	watch := func() *Watcher {
		w, err := f.pods.Watch(f.ctx, WatchOptions{Bookmarks: true, ResourceVersion: formatRevision(first.Revision)})
		f.must(err)
		t.Cleanup(w.Close)
		return w
	}
	var readers sync.WaitGroup
	defer readers.Wait()
	read := func(next func() ([]Event, error)) {
		readers.Go(func() {
			for last := int64(0); last < first.Revision+rounds; {
				events, err := next()
				if err != nil {
					t.Error(err)
					return
				}
				of := map[int64]int{}
				for _, e := range events {
					switch {
					case e.Type == Bookmark:
						last = e.Entry.Revision
					case e.Entry.Revision <= last:
						t.Errorf("revision %d goes on behind a bookmark of it", e.Entry.Revision)
						return
					default:
						of[e.Entry.Revision]++
					}
				}
				for revision, n := range of {
					last = max(last, revision)
					if n != 2 {
						t.Errorf("%d changes of revision %d came without the other", n, revision)
						return
					}
				}
			}
		})
	}
	marked, waiting := watch(), watch()
	read(marked.bookmark)
	read(func() ([]Event, error) { return waiting.Next(f.ctx) })
	_, value, err := f.pods.codec.encode(pod("a", "x", "n1"))
	f.must(err)
	for i := range int64(rounds) {
		var batch []storage.Event
		for _, name := range []string{"a/x", "a/y"} {
			batch = append(batch, storage.Event{
				KeyValue: storage.KeyValue{Key: f.pods.keys.prefix + name, Value: value, Revision: first.Revision + 1 + i}})
		}
		f.set.apply(batch)
	}
}
