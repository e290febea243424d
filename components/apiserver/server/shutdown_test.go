package server

import (
	"context"
	"io"
	"net/http"
	"testing"
	"time"
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
