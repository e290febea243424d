package reconcile

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/utils/clock"
)

// A key that panics is retried, and keeps no other from being reconciled.
func TestPanicIsRetried(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	other := make(chan struct{})
	var tries atomic.Int32
	loop := New(Config{Name: "test", Clock: clock.RealClock{}}, func(_ context.Context, key string) error {
		switch {
		case key == "other":
			close(other)
		case tries.Add(1) == 1:
			panic("first")
		case tries.Load() == 2:
			return errors.New("second")
		default:
			cancel()
		}
		return nil
	})
	loop.Add("bad")
	loop.Add("other")
	if err := loop.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	<-other
	if tries.Load() != 3 {
		t.Errorf("%d tries", tries.Load())
	}
}

// TestStaleIsRetried, for which no limit of failures counts.
func TestStaleIsRetried(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	tries := 0
	loop := New(Config{Name: "test", Clock: clock.RealClock{}, MinDelay: time.Hour, MaxDelay: time.Hour},
		func(context.Context, string) error {
			if tries++; tries < 3 {
				return fmt.Errorf("pods: %w", ErrStale)
			}
			cancel()
			return nil
		})
	loop.Add("key")
	if err := loop.Run(ctx); !errors.Is(err, context.Canceled) || tries != 3 {
		t.Error(tries, err)
	}
}
