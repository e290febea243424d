package server

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// TestCounted: what clients can make up doesn't get into the names of metrics.
func TestCounted(t *testing.T) {
	s := serverOf(t, ok, func(c *Config) {
		c.Serves = func(info *request.RequestInfo) bool { return info.Resource == "pods" }
	})
	for _, path := range []string{
		"/apis/invented.example.com/v7/things", "/api/v1/namespaces/x/pods/p", "/api/v1/pods?dryRun=perhaps&dryRun=All",
		"/api/v1/pods?dryRun=All",
	} {
		if w := ask(s, http.MethodGet, path); w.Code != http.StatusOK {
			t.Errorf("%s: got %d", path, w.Code)
		}
	}
	shown := ask(s, http.MethodGet, "/metrics").Body.String()
	for text, want := range map[string]bool{
		"invented": false, "perhaps": false, `dry_run="invalid"`: true, `dry_run="All"`: true,
		`dry_run="",group="",resource="pods",scope="resource"`: true,
	} {
		if strings.Contains(shown, text) != want {
			t.Errorf("%s: want %v", text, want)
		}
	}
}

// TestStalledReader: who doesn't read the answer loses it when the time is over, and the handler ends.
func TestStalledReader(t *testing.T) {
	ended := make(chan struct{})
	s := serverOf(t, func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		for chunk := make([]byte, 1<<20); ; {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	})
	s.responseGrace = time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	conn, err := net.Dial("tcp", s.config.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprint(conn, "GET /api/v1/pods?timeout=1ms HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("the handler goes on")
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestNobodyKeepsConnections: over HTTP/2, unauthenticated clients get one request to a connection.
func TestNobodyKeepsConnections(t *testing.T) {
	for name, want := range map[string]string{"alice": "", user.Anonymous: "close", "": "close"} {
		s := serverOf(t, ok, func(c *Config) {
			c.Authenticator = authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
				return &authenticator.Response{User: &user.DefaultInfo{Name: name}}, name != "", nil
			})
		})
		for major, want := range map[int]string{1: "", 2: want} {
			r := httptest.NewRequest(http.MethodGet, "/api/v1/pods", nil)
			r.ProtoMajor = major
			w := httptest.NewRecorder()
			s.Handler().ServeHTTP(w, r)
			if got := w.Header().Get("Connection"); got != want {
				t.Errorf("%q over HTTP/%d: got %q, want %q", name, major, got, want)
			}
		}
	}
}

// TestStreamsOfAConnection: the default limit of streams is upstream's.
func TestStreamsOfAConnection(t *testing.T) {
	for given, want := range map[int]int{0: 100, 7: 7} {
		if got := serverOf(t, ok,
			func(c *Config) { c.MaxStreams = given }).http.HTTP2.MaxConcurrentStreams; got != want {
			t.Errorf("%d given: %d", given, got)
		}
	}
}
