package docker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/moby/moby/api/types/jsonstream"
)

// errStalled is why a pull without progress is ended.
type errStalled struct {
	after time.Duration
	last  string
}

func (e errStalled) Error() string {
	return fmt.Sprintf("pulling image was cancelled: no progress for %v, last seen: %s", e.after, e.last)
}

// stallTimer ends a pull that makes no progress for a while. The zero duration never does.
type stallTimer struct {
	after time.Duration

	mu    sync.Mutex
	last  string
	timer *time.Timer
}

func newStallTimer(after time.Duration, cancel context.CancelCauseFunc) *stallTimer {
	t := &stallTimer{after: after, last: "nothing"}
	if after > 0 {
		t.timer = time.AfterFunc(after, func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			cancel(errStalled{after, t.last})
		})
	}
	return t
}

// progress begins the wait again, if what the engine tells is other than before.
func (t *stallTimer) progress(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if what == t.last {
		return
	}
	t.last = what
	if t.timer != nil {
		t.timer.Reset(t.after)
	}
}

func (t *stallTimer) stop() {
	if t.timer != nil {
		t.timer.Stop()
	}
}

// progressOf is one message as a line for people, other for each step.
func progressOf(m jsonstream.Message) string {
	line := m.Status
	if m.ID != "" {
		line = m.ID + ": " + line
	}
	if m.Progress != nil && m.Progress.Current > 0 {
		line += fmt.Sprintf(" %d/%d", m.Progress.Current, m.Progress.Total)
	}
	return line
}

// cause is why ctx ended before its time if it is about progress, else err.
func cause(ctx context.Context, err error) error {
	if stalled, ok := context.Cause(ctx).(errStalled); ok {
		return stalled
	}
	return err
}
