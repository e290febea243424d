package storage_test

import (
	"context"
	"errors"
	"slices"
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
	written := []int64{first}
	var at int64
	for at == 0 { // whenever it looks first
		next, err := s.Update(ctx, "/a", nil, written[len(written)-1], 0)
		if err != nil {
			t.Fatal(err)
		}
		written = append(written, next)
		clock.Step(time.Minute)
		select {
		case at = <-s.at:
		case <-time.After(10 * time.Millisecond):
		}
	}
	if !slices.Contains(written, at) {
		t.Errorf("compacted at %d, after %v", at, written)
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
