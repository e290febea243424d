// Package repeat is the loop of what has no keys: one pass over everything, run again when something changed, when it
// is due, or after a pause when it failed.
package repeat

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// Loop repeats a pass, one at a time. Wake may be called concurrently with all methods; Until and Run are called one
// after the other.
type Loop struct {
	what  string
	clock clock.Clock
	pause time.Duration // after a first failure
	most  time.Duration // after many in a row
	wake  chan struct{}
}

// New makes a loop. The log says of a pass that fails that it failed to do what; it is run again after the pause.
func New(what string, c clock.Clock, pause time.Duration) *Loop {
	return &Loop{what: what, clock: c, pause: pause, most: pause, wake: make(chan struct{}, 1)}
}

// Doubling makes Run double its pause with each pass in a row that fails, up to most. It is called before Run, and
// returns l.
func (l *Loop) Doubling(most time.Duration) *Loop {
	l.most = most
	return l
}

// Wake makes Run pass soon. Calls that come before it does count as one.
func (l *Loop) Wake() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Woken is ready when Wake was called and no pass began since; receiving from it undoes that.
func (l *Loop) Woken() <-chan struct{} { return l.wake }

// Until passes until that succeeds, or returns the last error when ctx ends.
func (l *Loop) Until(ctx context.Context, pass func(context.Context) error) error {
	for {
		err := attempt(ctx, pass)
		if err == nil || ctx.Err() != nil {
			return err
		}
		l.log(ctx, err)
		select {
		case <-ctx.Done():
			return err
		case <-l.clock.After(l.pause):
		}
	}
}

// Run passes whenever it is woken, when it is due, and a pause after a pass that failed, until ctx ends. due is called
// before each wait; it may be nil, and so may what it returns.
func (l *Loop) Run(ctx context.Context, due func() <-chan time.Time, pass func(context.Context) error) {
	var again <-chan time.Time
	pause := l.pause
	for {
		var next <-chan time.Time
		if due != nil {
			next = due()
		}
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
		case <-next:
		case <-again:
		}
		again = nil
		if err := attempt(ctx, pass); err != nil && ctx.Err() == nil {
			l.log(ctx, err)
			again, pause = l.clock.After(pause), min(2*pause, l.most)
		} else {
			pause = l.pause
		}
	}
}

func (l *Loop) log(ctx context.Context, err error) {
	klog.FromContext(ctx).Error(err, "Failed to "+l.what+"; retrying")
}

// attempt turns a panic into an error: the process goes on, and so does the loop.
func attempt(ctx context.Context, pass func(context.Context) error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	return pass(ctx)
}
