package apiserver_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/apiserver"
	"quintet.dev/quintet/components/apiserver/options"
)

// TestSharedPort: two servers listen on one port if both may.
func TestSharedPort(t *testing.T) {
	first := start(t, func(c *options.Config) { c.Serving.Sharing.Port = true })
	port := first.server.Addr().(*net.TCPAddr).Port
	for shared, want := range map[bool]bool{false: false, true: true} {
		c := options.Config{Storage: options.StorageMemory, SecurePort: port}
		c.Serving.Sharing.Port = shared
		second, err := apiserver.New(c)
		if (err == nil) != want {
			t.Errorf("shared %v: %v", shared, err)
		}
		if err == nil {
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			if err := second.Run(ended); err != nil {
				t.Error(err)
			}
		}
	}
}

// heldClock is the real one, but for one delay, which ends when the test says so.
type heldClock struct {
	clock.RealClock
	delay time.Duration
	over  chan time.Time
}

func (c heldClock) After(d time.Duration) <-chan time.Time {
	if d == c.delay {
		return c.over
	}
	return c.RealClock.After(d)
}

// TestShutdownDelay: a server that is told to end says so at /readyz, and serves on for a while, also on new
// connections.
func TestShutdownDelay(t *testing.T) {
	held := heldClock{delay: 1000 * time.Hour, over: make(chan time.Time)}
	f := start(t, func(c *options.Config) { c.Serving.ShutdownDelay, c.Clock = held.delay, held })
	client := f.client(t)
	stopped := make(chan struct{})
	go func() {
		f.stop()
		close(stopped)
	}()
	eventually(t, "not ready",
		func() bool { return f.ask(t, http.MethodGet, "/readyz").StatusCode == http.StatusInternalServerError })
	if r := f.ask(t, http.MethodGet, "/livez"); r.StatusCode != http.StatusOK {
		t.Errorf("livez: %d", r.StatusCode)
	}
	create(t, client, configMap("late", nil))
	create(t, f.client(t), configMap("later", nil))
	close(held.over)
	<-stopped
	if _, err := f.handshake(&tls.Config{}); err == nil {
		t.Error("the port is open after the end")
	}
}

// TestMinRequestTimeout: watches that don't say how long they live end after that and before twice that.
func TestMinRequestTimeout(t *testing.T) {
	client := start(t, func(c *options.Config) { c.Serving.MinRequestTimeout = time.Second }).client(t)
	begun := time.Now()
	w, err := client.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for e := range w.ResultChan() {
		t.Logf("%v", e)
	}
	if lived := time.Since(begun); lived < time.Second || lived > 20*time.Second {
		t.Errorf("the watch lived for %v", lived)
	}
}

// TestRequestTimeout bounds requests that name no bound, and those that name a longer one.
func TestRequestTimeout(t *testing.T) {
	f := start(t, func(c *options.Config) { c.RequestTimeout = time.Second })
	for _, query := range []string{"", "?timeout=10m"} {
		never, write := io.Pipe()
		defer write.Close()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
			"https://"+f.server.Addr().String()+"/api/v1/namespaces/default/configmaps"+query, never)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer admin")
		r.Header.Set("Content-Type", "application/json")
		transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
		defer transport.CloseIdleConnections()
		answer, err := transport.RoundTrip(r)
		if err != nil {
			t.Errorf("%q: %v", query, err)
			continue
		}
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusGatewayTimeout {
			t.Errorf("%q: got %s", query, answer.Status)
		}
	}
}

// TestStreams tells clients how many requests a connection may have.
func TestStreams(t *testing.T) {
	f := start(t, func(c *options.Config) { c.Serving.HTTP2Streams = 7 })
	conn, err := tls.Dial("tcp", f.server.Addr().String(),
		&tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	framer := http2.NewFramer(conn, conn)
	if err := framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	frame, err := framer.ReadFrame()
	if err != nil {
		t.Fatal(err)
	}
	settings, ok := frame.(*http2.SettingsFrame)
	if !ok {
		t.Fatalf("got %v", frame)
	}
	if n, ok := settings.Value(http2.SettingMaxConcurrentStreams); !ok || n != 7 {
		t.Errorf("%d streams, %v", n, ok)
	}
}

// TestGoaway: some requests make their client reconnect, without failing.
func TestGoaway(t *testing.T) {
	for chance, want := range map[float64]bool{0: false, 0.02: true} {
		f := start(t, func(c *options.Config) { c.Serving.GoawayChance = chance })
		protocols := &http.Protocols{}
		protocols.SetHTTP2(true)
		transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, Protocols: protocols}
		connections := 0
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
			if !i.Reused {
				connections++
			}
		}})
		for range 1000 { // of which none says goodbye with a chance of 2 in a thousand million
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+f.server.Addr().String()+"/version",
				nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer admin")
			answer, err := transport.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, answer.Body)
			_ = answer.Body.Close()
			if answer.StatusCode != http.StatusOK {
				t.Fatalf("got %s", answer.Status)
			}
		}
		transport.CloseIdleConnections()
		if (connections > 1) != want {
			t.Errorf("chance %v: %d connections", chance, connections)
		}
	}
}

// TestExternalHostname is what clients are told.
func TestExternalHostname(t *testing.T) {
	f := start(t, func(c *options.Config) { c.ExternalHostname = "api.example.com" })
	for _, path := range []string{"/api", "/.well-known/openid-configuration"} {
		if text := f.text(t, path); !strings.Contains(text, "api.example.com:") {
			t.Errorf("%s: got %s", path, text)
		}
	}
}
