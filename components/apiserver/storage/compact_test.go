package storage_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/apiserver/storage"
	"quintet.dev/quintet/components/apiserver/storage/memory"
)

// compacted tells the test of each compaction.
type compacted struct {
	storage.Store
	at chan int64
}

func (c *compacted) Compact(ctx context.Context, revision int64) error {
	err := c.Store.Compact(ctx, revision)
	select {
	case c.at <- revision:
	case <-ctx.Done():
	}
	return err
}

func TestKeepCompacted(t *testing.T) {
	clock := testclock.NewFakeClock(time.Unix(0, 0))
	s := &compacted{Store: memory.New(clock), at: make(chan int64)}
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	var told atomic.Int64
	first, err := s.Create(ctx, "/a", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(done)
		storage.KeepCompacted(ctx, s, clock, time.Minute, told.Store)
	}()
	// The store's own timer is the other waiter.
	for !clock.HasWaiters() {
		time.Sleep(time.Millisecond)
	}
	second, err := s.Update(ctx, "/a", nil, first, 0)
	if err != nil {
		t.Fatal(err)
	}
	var at int64
	for at == 0 {
		clock.Step(time.Minute)
		select {
		case at = <-s.at:
		case <-time.After(10 * time.Millisecond):
		}
	}
	if at != first && at != second {
		t.Errorf("compacted at %d, after %d and %d", at, first, second)
	}
	if _, err := s.List(ctx, storage.Range{Prefix: "/", Revision: at - 1}); !errors.Is(err, storage.ErrCompacted) {
		t.Errorf("before the compaction: %v", err)
	}
	cancel()
	<-done
	if told.Load() < at {
		t.Errorf("told of %d", told.Load())
	}
}
