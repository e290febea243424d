package repeat

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"
)

// TestUntil: passes that fail, or panic, are repeated after a pause until one succeeds.
func TestUntil(t *testing.T) {
	clock := testclock.NewFakeClock(time.Now())
	l := New("test", clock, time.Second)
	tries := 0
	done := make(chan error)
	go func() {
		done <- l.Until(t.Context(), func(context.Context) error {
			tries++
			switch tries {
			case 1:
				return errors.New("first")
			case 2:
				panic("second")
			}
			return nil
		})
	}()
	for range 2 {
		for !clock.HasWaiters() {
			time.Sleep(time.Millisecond)
		}
		clock.Step(time.Second)
	}
	if err := <-done; err != nil || tries != 3 {
		t.Errorf("%v after %d tries", err, tries)
	}
	ended, cancel := context.WithCancel(t.Context())
	err := l.Until(ended, func(context.Context) error {
		cancel()
		panic("last")
	})
	if err == nil || !strings.HasPrefix(err.Error(), "panic: last") {
		t.Errorf("the end of the context: %v", err)
	}
}

// TestRun: a pass follows a wake, what is due, and a pass that failed; nothing else.
func TestRun(t *testing.T) {
	clock := testclock.NewFakeClock(time.Now())
	l := New("test", clock, time.Second)
	ctx, cancel := context.WithCancel(t.Context())
	passed, due, ended := make(chan int), make(chan time.Time), make(chan struct{})
	passes := 0
	go func() {
		defer close(ended)
		l.Run(ctx, func() <-chan time.Time { return due }, func(context.Context) error {
			passes++
			passed <- passes
			if passes == 2 {
				return errors.New("second")
			}
			return nil
		})
	}()
	l.Wake()
	if n := <-passed; n != 1 {
		t.Errorf("woken: pass %d", n)
	}
	due <- clock.Now()
	if n := <-passed; n != 2 {
		t.Errorf("due: pass %d", n)
	}
	for !clock.HasWaiters() {
		time.Sleep(time.Millisecond)
	}
	clock.Step(time.Second)
	if n := <-passed; n != 3 {
		t.Errorf("failed: pass %d", n)
	}
	cancel()
	<-ended
}

// TestDoubling: each failure in a row doubles the pause up to the most, and a success brings the first one back.
func TestDoubling(t *testing.T) {
	clock := testclock.NewFakeClock(time.Now())
	l := New("test", clock, time.Second).Doubling(3 * time.Second)
	ctx, cancel := context.WithCancel(t.Context())
	passed, fails, ended := make(chan struct{}), make(chan bool), make(chan struct{})
	go func() {
		defer close(ended)
		l.Run(ctx, nil, func(context.Context) error {
			passed <- struct{}{}
			if <-fails {
				return errors.New("no")
			}
			return nil
		})
	}()
	pass := func(fail bool) {
		<-passed
		fails <- fail
	}
	l.Wake()
	pass(true)
	for i, pause := range []time.Duration{time.Second, 2 * time.Second, 3 * time.Second} {
		for !clock.HasWaiters() {
			time.Sleep(time.Millisecond)
		}
		clock.Step(pause - time.Millisecond)
		select {
		case <-passed:
			t.Fatalf("passed before %v", pause)
		case <-time.After(5 * time.Millisecond):
		}
		clock.Step(time.Millisecond)
		pass(i < 2)
	}
	l.Wake()
	pass(true)
	for !clock.HasWaiters() {
		time.Sleep(time.Millisecond)
	}
	clock.Step(time.Second)
	pass(false)
	cancel()
	<-ended
}
