package cache

import (
	"testing"

	"quintet.dev/quintet/components/apiserver/storage"
)

// TestOneRevision: what the store does in one transaction, as it takes away keys whose lease has ended, is seen of every object,
// and whoever begins to watch meanwhile misses none of it.
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
		batch = append(batch, storage.Event{Type: storage.Delete, KeyValue: storage.KeyValue{Key: f.pods.prefix + name, Revision: last.Revision + 1}})
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
