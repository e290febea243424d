package server

import (
	"context"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apiserver/pkg/server/filters"
	"k8s.io/klog/v2"
)

// Shutdown says how a server ends: it says so at /readyz, serves on for Delay and until it has Left, takes no more
// requests, finishes those under way, and ends watches.
type Shutdown struct {
	// Delay gives load balancers time to look elsewhere.
	Delay time.Duration
	// Left ends the wait for the cluster to be told that the server goes, which takes no longer than Drain; nil waits
	// for nothing.
	Left <-chan struct{}
	// RetryAfter answers new requests with 429 during the drain, instead of closing the port.
	RetryAfter bool
	// WatchGrace bounds the time over which watches are ended, each at a random moment: few are ended sooner. 0 ends
	// all at once.
	WatchGrace time.Duration
	// Drain bounds the wait for requests under way; 0 means the server's RequestTimeout.
	Drain time.Duration
}

// orElse sets what was left out.
func orElse[T comparable](field *T, value T) {
	var none T
	if *field == none {
		*field = value
	}
}

// shutDown returns when there is nothing more to wait for; what ends serving before that is an error.
func (s *Server) shutDown(ctx context.Context, served <-chan error) error {
	how := s.config.Shutdown
	s.stopping.Store(true)
	klog.FromContext(ctx).Info("Shutting down", "address", s.config.Listener.Addr().String(), "delay", how.Delay)
	if how.Delay > 0 {
		select {
		case err := <-served:
			return err
		case <-s.config.Clock.After(how.Delay):
		}
	}
	if how.Left != nil {
		select {
		case err := <-served:
			return err
		case <-how.Left:
		case <-s.config.Clock.After(how.Drain):
		}
	}
	ctx, cancel := context.WithTimeout(ctx, how.Drain+how.WatchGrace)
	defer cancel()
	close(s.closing)
	s.turns = turns(how.WatchGrace, s.longRunning.Load())
	s.stopNow()
	if !how.RetryAfter {
		go func() { _ = s.http.Shutdown(ctx) }() // takes no more connections, and tells clients so
	}
	s.drain(ctx)
	return nil
}

// linger is how long the connections of a server that has nothing to do any more stay open: requests may be on their
// way on them.
const linger = 100 * time.Millisecond

// drain waits for the requests under way, and until their answers are sent. It doesn't wait for all connections to be
// closed, as clients with HTTP/2 would take a second for that.
func (s *Server) drain(ctx context.Context) {
	ticker := time.NewTicker(linger / 2)
	defer ticker.Stop()
	s.drainBy(ctx, ticker.C)
}

// drainBy looks each time that there is something to receive.
func (s *Server) drainBy(ctx context.Context, looks <-chan time.Time) {
	quiet := 0 // looks at which there was nothing to do; the end of an answer is flushed right after the first
	for quiet < 2 {
		select {
		case <-ctx.Done():
			return
		case <-looks:
			quiet++
			if s.active.Load() > 0 || s.answering.any() {
				quiet = 0
			}
		}
	}
}

// answering are the connections on which something is asked, or is being answered: handlers end before their answers
// are sent. Each connection finds its own without a lock, as all requests pass here.
type answering struct{ conns sync.Map } // of net.Conn to *atomic.Bool

// note is an http.Server's ConnState.
func (a *answering) note(conn net.Conn, state http.ConnState) {
	switch state {
	case http.StateActive, http.StateIdle:
		busy, known := a.conns.Load(conn)
		if !known {
			busy, _ = a.conns.LoadOrStore(conn, &atomic.Bool{})
		}
		busy.(*atomic.Bool).Store(state == http.StateActive)
	case http.StateClosed, http.StateHijacked:
		a.conns.Delete(conn)
	}
}

func (a *answering) any() (busy bool) {
	a.conns.Range(func(_, active any) bool {
		busy = active.(*atomic.Bool).Load()
		return !busy
	})
	return busy
}

// endRate is how many watches are ended a second, at least.
const endRate = 200

// turns is the time over which a number of watches is ended.
func turns(grace time.Duration, watches int64) time.Duration {
	return min(grace, time.Duration(watches)*time.Second/endRate)
}

// endInTurn ends a watch at some moment of the time over which all are ended.
func (s *Server) endInTurn(ctx context.Context, end context.CancelFunc) {
	if s.turns > 0 {
		select {
		case <-ctx.Done():
		case <-s.config.Clock.After(rand.N(s.turns)):
		}
	}
	end()
}

// retryLater sends clients elsewhere while the server drains with an open port.
func (s *Server) retryLater(next http.Handler) http.Handler {
	if !s.config.Shutdown.RetryAfter {
		return next
	}
	return filters.WithRetryAfter(next, s.closing)
}

func (s *Server) withEdge(next http.Handler) http.Handler {
	if s.config.Edge == nil {
		return next
	}
	return s.config.Edge(next)
}
