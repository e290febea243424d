package reconcile

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
)

// jumpingClock goes forward just before its first timer is there.
type jumpingClock struct {
	*clocktesting.FakeClock
	jumped *atomic.Bool
}

func (c jumpingClock) NewTimer(d time.Duration) clock.Timer {
	if c.jumped.CompareAndSwap(false, true) {
		c.Step(time.Hour)
	}
	return c.FakeClock.NewTimer(d)
}

// A clock that is put forward while a timer is made makes no key late.
func TestClockJumps(t *testing.T) {
	clk := jumpingClock{clocktesting.NewFakeClock(time.Unix(0, 0)), &atomic.Bool{}}
	got := make(chan string, 1)
	loop := New(Config{Clock: clk}, func(_ context.Context, key string) error { got <- key; return nil })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = loop.Run(ctx) }()
	defer func() { cancel(); <-done }()
	loop.AddAfter("a", time.Minute)
	select {
	case <-got:
	case <-time.After(10 * time.Second):
		t.Error("a key that is due does not come")
	}
}

// A worker whose goroutine ends while it has a key gives the key back.
func TestWorkerEndsItsGoroutine(t *testing.T) {
	calls := make(chan int32, 3)
	var count atomic.Int32
	loop := New(Config{Clock: clock.RealClock{}, Workers: 2}, func(context.Context, string) error {
		n := count.Add(1)
		calls <- n
		if n == 1 {
			runtime.Goexit()
		}
		return nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = loop.Run(ctx) }()
	defer func() { cancel(); <-done }()
	for want := int32(1); want <= 2; want++ {
		loop.Add("a")
		select {
		case got := <-calls:
			if got != want {
				t.Errorf("call %d, want %d", got, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("no call %d", want)
		}
	}
}
