package server

import (
	"context"
	"crypto/tls"
	"io"
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
			select {
			case err := <-done:
				t.Fatalf("Run has returned: %v", err)
			case <-time.After(3 * linger): // by when it would have, if it waited for handlers alone
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
