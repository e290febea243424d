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
)

// TestWatchGrace: watches of a server that ends go on for some part of their grace, and Run waits for them.
func TestWatchGrace(t *testing.T) {
	for grace, want := range map[time.Duration]string{1000 * time.Hour: "by themselves", time.Millisecond: "by the server"} {
		const watches = 20
		entered, leave := make(chan struct{}, watches), make(chan struct{})
		s := serverOf(t, func(w http.ResponseWriter, r *http.Request) {
			entered <- struct{}{}
			select {
			case <-leave:
				_, _ = io.WriteString(w, "by themselves")
			case <-r.Context().Done():
				_, _ = io.WriteString(w, "by the server")
			}
		}, func(c *Config) { c.Shutdown.WatchGrace = grace })
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
		if want == "by themselves" {
			select {
			case err := <-done:
				t.Fatalf("Run didn't wait: %v", err)
			case end := <-ends:
				t.Errorf("grace %v: a watch ended %s", grace, end)
			case <-time.After(2 * linger): // by when Run would have returned
			}
			close(leave)
		}
		for range watches {
			if end := <-ends; end != want {
				t.Errorf("grace %v: ended %s, want %s", grace, end, want)
			}
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// TestTheClusterIsToldFirst: the port is open until nobody is sent to it any more.
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
	conn, err := tls.Dial("tcp", s.config.Listener.Addr().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
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
		"answer":  {func() { s.answering.note(conn, http.StateActive) }, func() { s.answering.note(conn, http.StateIdle) }},
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
