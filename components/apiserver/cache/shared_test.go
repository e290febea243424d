package cache

import (
	"context"
	"testing"
	"time"

	"quintet.dev/quintet/components/apiserver/storage/memory"
)

// TestForksShareObjects: what a cache has made of a value, that of a fork's store has too, until either writes.
func TestForksShareObjects(t *testing.T) {
	f := startMemory(t)
	kept, written := f.create("a", "kept", ""), f.create("a", "written", "")
	for f.set.Revision() < written.Revision {
		time.Sleep(time.Millisecond)
	}

	store := memory.NewFrom(nil, f.store.(*memory.Store).Snapshot())
	defer store.Close()
	set, err := NewSet(Config{Store: store})
	f.must(err)
	fork := set.Add(f.pods.kind)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { _ = set.Run(ctx) }()
	f.must(set.WaitReady(ctx))

	shared, found := fork.Peek(kept.Key)
	if !found || shared.Object != kept.Object || shared == kept {
		t.Errorf("the fork has %p, %t; its origin %p", shared, found, kept)
	}
	before, _ := f.pods.Peek(written.Key)
	_, err = fork.Delete(ctx, written.Key, nil)
	f.must(err)
	if after, _ := f.pods.Peek(written.Key); after != before {
		t.Error("the origin's object has changed")
	}
}
