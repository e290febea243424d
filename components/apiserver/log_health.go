package apiserver

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

const (
	flushEvery = time.Minute
	// stuckAfter is for how long the log may take nothing before the server is not healthy.
	stuckAfter = 2 * flushEvery
)

// logFlushCheck is the health check of the log: a server whose log is blocked soon answers no requests, and logs
// nothing of it.
type logFlushCheck struct {
	clock clock.WithTicker
	flush func()
	last  atomic.Int64 // when flush last returned, in nanoseconds since 1970
}

func newLogFlushCheck(clock clock.WithTicker, flush func()) *logFlushCheck {
	l := &logFlushCheck{clock: clock, flush: flush}
	l.last.Store(clock.Now().UnixNano())
	return l
}

// run flushes until ctx ends.
func (l *logFlushCheck) run(ctx context.Context) error {
	ticker := l.clock.NewTicker(flushEvery)
	defer ticker.Stop()
	for {
		l.flush()
		l.last.Store(l.clock.Now().UnixNano())
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
	}
}

func (l *logFlushCheck) check(*http.Request) error {
	if l.clock.Since(time.Unix(0, l.last.Load())) > stuckAfter {
		return errors.New("logging blocked")
	}
	return nil
}
