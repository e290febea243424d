package server

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"golang.org/x/net/http2"
	testingclock "k8s.io/utils/clock/testing"
)

// TestWatchGrace: watches of a server that ends go on until it is their turn, and Run waits for them.
func TestWatchGrace(t *testing.T) {
	const watches = 20
	clk := testingclock.NewFakeClock(time.Now())
	entered := make(chan struct{}, watches)
	s := serverOf(t, func(w http.ResponseWriter, r *http.Request) {
		entered <- struct{}{}
		<-r.Context().Done()
		_, _ = io.WriteString(w, "by the server")
	}, func(c *Config) {
		c.Shutdown.WatchGrace, c.Clock, c.Fairness = time.Hour, clk,
			func(next http.Handler) http.Handler { return next }
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	ends := make(chan string, watches)
	for range watches {
		go func() {
			response, err := http.Get("http://" + s.config.Listener.Addr().String() + "/api/v1/pods?watch=1")
			if err != nil {
				ends <- err.Error()
				return
			}
			defer response.Body.Close()
			text, _ := io.ReadAll(response.Body)
			ends <- string(text)
		}()
	}
	for range watches {
		<-entered
	}
	cancel()
	<-s.stop.Done()
	select {
	case err := <-done:
		t.Fatalf("Run didn't wait: %v", err)
	case end := <-ends:
		t.Fatalf("a watch ended %s before its turn", end)
	case <-time.After(2 * linger): // by when Run would have returned
	}
	for left := watches; left > 0; {
		select {
		case end := <-ends:
			if left--; end != "by the server" {
				t.Errorf("ended %s", end)
			}
		case <-time.After(time.Millisecond): // some watches hear of the end later than others
			clk.Step(turns(time.Hour, watches))
		}
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestTurns: a watch is ended every few milliseconds, or all of them within the grace.
func TestTurns(t *testing.T) {
	for _, c := range []struct {
		grace   time.Duration
		watches int64
		want    time.Duration
	}{
		{0, 1000, 0}, {time.Minute, 0, 0}, {time.Minute, 5, 25 * time.Millisecond},
		{time.Minute, 2000, 10 * time.Second},
		{time.Minute, 1_000_000, time.Minute}, {time.Millisecond, 100, time.Millisecond},
	} {
		if got := turns(c.grace, c.watches); got != c.want {
			t.Errorf("%d watches in %v: %v", c.watches, c.grace, got)
		}
	}
}

// TestTheClusterIsToldFirst: the port is open until clients are no longer directed to it.
func TestTheClusterIsToldFirst(t *testing.T) {
	left := make(chan struct{})
	s := serverOf(t, ok, func(c *Config) { c.Shutdown.Left = left })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	cancel()
	select {
	case left <- struct{}{}:
	case <-s.closing:
		t.Error("no more requests are taken, but the server has not left")
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestTheEndOfAnAnswerIsSent: that its handler has ended doesn't mean that the client has it.
func TestTheEndOfAnAnswerIsSent(t *testing.T) {
	s := serverOf(t, ok, withHTTP2(t))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	conn, err := tls.Dial("tcp", s.config.Listener.Addr().String(),
		&tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	requestWithin(t, conn, "/api/v1/pods", 0)
	framer := http2.NewFramer(conn, conn)
	var answer string
	for ended := false; !ended; {
		frame, err := framer.ReadFrame()
		if err != nil {
			t.Fatalf("the connection ended: %v", err)
		}
		switch f := frame.(type) {
		case *http2.HeadersFrame:
			cancel() // the rest of the answer has no room yet
		case *http2.GoAwayFrame:
			if s.active.Load() != 0 || !s.answering.any() { // which is why Run has not returned
				t.Fatal("the answer is sent, or its handler has not ended")
			}
			if err := framer.WriteWindowUpdate(1, 100); err != nil {
				t.Fatal(err)
			}
		case *http2.DataFrame:
			answer += string(f.Data())
			ended = f.StreamEnded()
		}
	}
	if answer != "ok" {
		t.Errorf("got %q", answer)
	}
	_ = conn.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestDrainLooks until there are neither handlers nor answers, and then once more.
func TestDrainLooks(t *testing.T) {
	s := serverOf(t, ok)
	conn, _ := net.Pipe()
	for name, work := range map[string]struct{ begin, end func() }{
		"none":    {func() {}, func() {}},
		"handler": {func() { s.active.Add(1) }, func() { s.active.Add(-1) }},
		"answer": {func() { s.answering.note(conn, http.StateActive) },
			func() { s.answering.note(conn, http.StateIdle) }},
	} {
		looks, done := make(chan time.Time), make(chan struct{})
		work.begin()
		go func() {
			defer close(done)
			s.drainBy(t.Context(), looks)
		}()
		least := 5
		if name == "none" {
			least = 2
		}
		for range least {
			select {
			case looks <- time.Time{}:
			case <-done:
				t.Errorf("%s: it doesn't wait any more", name)
			}
		}
		work.end()
		for ended := false; !ended; {
			select {
			case looks <- time.Time{}:
			case <-done:
				ended = true
			}
		}
	}
}
