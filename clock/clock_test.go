package clock

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var start = time.Date(2030, time.January, 1, 0, 0, 0, 0, time.UTC)

// log is what fired, in its order.
type log struct {
	mu    sync.Mutex
	names []string
}

func (l *log) add(name string) func() {
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.names = append(l.names, name)
	}
}

func (l *log) is(t *testing.T, want ...string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Equal(l.names, want) {
		t.Errorf("fired %v, want %v", l.names, want)
	}
}

func advance(t *testing.T, c *Clock, d time.Duration) {
	t.Helper()
	if err := c.Advance(t.Context(), d); err != nil {
		t.Fatal(err)
	}
}

func TestTimersFireInTheirOrder(t *testing.T) {
	c := New(start)
	var fired log
	c.AfterFunc(3*time.Hour, fired.add("third"))
	c.AfterFunc(time.Hour, func() {
		fired.add("first")()
		c.AfterFunc(time.Hour, fired.add("second"))
	})
	stopped := c.AfterFunc(2*time.Hour, fired.add("stopped"))
	c.AfterFunc(5*time.Hour, fired.add("later"))
	if !stopped.Stop() || stopped.Stop() {
		t.Error("Stop does not tell whether the timer was to fire")
	}
	advance(t, c, 4*time.Hour)
	fired.is(t, "first", "second", "third")
	if passed := c.Since(start); passed < 4*time.Hour || passed > 4*time.Hour+time.Minute {
		t.Errorf("%s passed", passed)
	}
}

func TestReportersGoFirst(t *testing.T) {
	c := New(start)
	var fired log
	c.Background().AfterFunc(time.Minute, fired.add("controller"))
	c.Early().Background().AfterFunc(2*time.Minute, fired.add("kubelet")) // before the first look, too
	advance(t, c, 24*time.Hour)
	fired.is(t, "kubelet", "controller")
}

func TestTickersSkip(t *testing.T) {
	c := New(start)
	ticker := c.NewTicker(time.Second)
	defer ticker.Stop()
	var ticks atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-ticker.C():
				ticks.Add(1)
			case <-ctx.Done():
				return
			}
		}
	}()
	advance(t, c, 24*time.Hour)
	cancel()
	<-done
	if n := ticks.Load(); n < looks/2 || n > 2*looks {
		t.Errorf("%d ticks in %d looks", n, looks)
	}
}

func TestStepsWaitForActivity(t *testing.T) {
	c := New(start)
	var busy atomic.Bool
	forget := c.Watch(func() (int64, bool) { return 0, busy.Load() })
	defer forget()
	seen := make(chan time.Time, 1)
	c.AfterFunc(time.Hour, func() {
		busy.Store(true)
		time.AfterFunc(50*time.Millisecond, func() { // real work
			seen <- c.Now()
			busy.Store(false)
		})
	})
	c.AfterFunc(2*time.Hour, func() {})
	advance(t, c, 3*time.Hour)
	if at := (<-seen).Sub(start); at > 90*time.Minute {
		t.Errorf("the work of the first hour ended at %s", at)
	}
}

func TestClockRunsByItself(t *testing.T) {
	c := New(start)
	timer := c.NewTimer(time.Hour)
	timer.Reset(time.Millisecond)
	if at := <-timer.C(); at.Before(start.Add(time.Millisecond)) || at.Sub(start) > time.Minute {
		t.Errorf("fired at %s", at)
	}
	c.Sleep(time.Millisecond)
}

func TestAdvanceIsRefused(t *testing.T) {
	c := New(start)
	if err := c.Advance(t.Context(), -1); err == nil {
		t.Error("the clock went back")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Advance(ctx, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if c.Since(start) > time.Minute {
		t.Error("the clock moved although its context was over")
	}
}

func TestStride(t *testing.T) {
	const none = time.Duration(-1)
	for name, test := range map[string]struct {
		stride              stride
		appointment, rhythm time.Duration
		length              time.Duration
		look                bool
	}{
		"nothing waits":          {stride{left: 10, rest: 3}, none, none, 10, true},
		"to an appointment":      {stride{left: 10, rest: 5}, 4, none, 4, false},
		"beyond the end":         {stride{left: 10, rest: 5}, 40, 50, 10, true},
		"a rhythm waits for it":  {stride{left: 10, rest: 5}, 9, 1, 5, true},
		"a rhythm waited before": {stride{left: 10, rest: 5, since: 3}, 9, 1, 2, true},
		"a slow rhythm":          {stride{left: 10, rest: 5}, none, 7, 7, true},
		"again and again":        {stride{left: 10, rest: 5, least: 2}, 0, none, 2, false},
	} {
		if length, look := test.stride.next(test.appointment, test.rhythm); length != test.length || look != test.look {
			t.Errorf("%s: %d, %t, want %d, %t", name, length, look, test.length, test.look)
		}
	}
}
