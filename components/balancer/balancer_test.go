package balancer

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// apiServer is a TLS server that answers with its name.
func apiServer(t *testing.T, name string) *httptest.Server {
	t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, name)
	}))
	t.Cleanup(s.Close)
	return s
}

// checked is a balancer before servers, which trusts their authority.
func checked(t *testing.T, servers ...*httptest.Server) *Balancer {
	t.Helper()
	config := NewConfig()
	config.Period = 10 * time.Millisecond
	config.CAFile = filepath.Join(t.TempDir(), "ca.crt")
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: servers[0].Certificate().Raw})
	if err := os.WriteFile(config.CAFile, ca, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, s := range servers {
		config.Backends = append(config.Backends, s.Listener.Addr().String())
	}
	b, err := New(*config)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// balanced starts a balancer before servers and returns a client of it, which opens a connection for each request.
func balanced(t *testing.T, servers ...*httptest.Server) func() (string, error) {
	t.Helper()
	b := checked(t, servers...)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.Serve(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Serve returned %v", err)
		}
		goleak.VerifyNone(t, goleak.IgnoreAnyFunction("net/http/httptest.(*Server).goServe.func1"),
			goleak.IgnoreAnyFunction("internal/poll.runtime_pollWait"), goleak.IgnoreCurrent())
	})
	roots := x509.NewCertPool()
	roots.AddCert(servers[0].Certificate())
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots},
	}}
	return func() (string, error) {
		response, err := client.Get("https://" + listener.Addr().String() + "/")
		if err != nil {
			return "", err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		return string(body), err
	}
}

func TestClientsSurviveTheLossOfAServer(t *testing.T) {
	one, two := apiServer(t, "one"), apiServer(t, "two")
	get := balanced(t, one, two)
	if _, err := get(); err != nil {
		t.Fatal(err)
	}
	one.CloseClientConnections()
	one.Close()
	for range 20 {
		if name, err := get(); err != nil || name != "two" {
			t.Fatalf("%q, %v", name, err)
		}
	}
}

// A server that takes connections and never answers is found out by its check.
func TestHungServerIsLeft(t *testing.T) {
	hung, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hung.Close() })
	well := apiServer(t, "well")
	silent := &httptest.Server{Listener: hung}
	get := balanced(t, well, silent)
	deadline := time.Now().Add(30 * time.Second)
	for healthy := 0; healthy < 10; {
		name, err := get()
		if err == nil && name == "well" {
			healthy++
		} else if time.Now().After(deadline) {
			t.Fatalf("%q, %v", name, err)
		}
	}
}

func TestNewNamesWhatIsWrong(t *testing.T) {
	ca := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(ca, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Config){
		"--backend is required":    func(c *Config) { c.Backends = nil },
		"--failure-threshold":      func(c *Config) { c.FailureThreshold = 0 },
		"--check-period":           func(c *Config) { c.Period = 0 },
		"--certificate-authority:": func(c *Config) { c.CAFile = "/no/such/file" },
		"no certificate":           func(c *Config) { c.CAFile = ca },
	} {
		config := NewConfig()
		config.Backends, config.CAFile = []string{"a:1"}, ca
		change(config)
		if _, err := New(*config); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// TestFailureThreshold: a backend is out of favour with the first check that fails; from the third in a row on it loses
// its connections, also those that came later, but only while another is ready.
func TestFailureThreshold(t *testing.T) {
	var oneReady, twoReady atomic.Bool
	oneReady.Store(true)
	b := checked(t, readiness(t, &oneReady), readiness(t, &twoReady))
	one, two := b.backends[0], b.backends[1]
	check := func(of *backend, times int) {
		for range times {
			b.look(t.Context(), of)
		}
	}
	connect := func(to *backend) net.Conn {
		near, far := net.Pipe()
		t.Cleanup(func() { _ = near.Close() })
		to.add(far)
		return near
	}
	open := func(conn net.Conn, want bool) {
		t.Helper()
		_ = conn.SetReadDeadline(time.Now().Add(time.Millisecond))
		_, err := conn.Read(make([]byte, 1))
		if open := !errors.Is(err, io.EOF); open != want {
			t.Errorf("the connection is open: %v, want %v", open, want)
		}
	}
	check(one, 1)
	early := connect(one)
	oneReady.Store(false)
	check(one, 1)
	if ready, _ := one.state(); ready {
		t.Error("new connections go to a backend whose check failed")
	}
	check(one, 5)
	open(early, true) // there is no better one
	twoReady.Store(true)
	check(two, 1)
	check(one, 1)
	open(early, false)
	late := connect(one)
	check(one, 1)
	open(late, false)
	oneReady.Store(true)
	check(one, 1)
	oneReady.Store(false)
	again := connect(one)
	check(one, 2)
	open(again, true)
	check(one, 1)
	open(again, false)
}

// readiness is an API server that is ready while ready is true.
func readiness(t *testing.T, ready *atomic.Bool) *httptest.Server {
	t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !ready.Load() {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// TestHealth: /healthz answers while the balancer runs, /readyz while an API server is ready.
func TestHealth(t *testing.T) {
	b := &Balancer{backends: []*backend{newBackend("127.0.0.1:1")}}
	server := httptest.NewServer(b.health())
	defer server.Close()
	status := func(path string) int {
		response, err := http.Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		return response.StatusCode
	}
	if got := status("/healthz"); got != http.StatusOK {
		t.Errorf("/healthz: %d", got)
	}
	if got := status("/readyz"); got != http.StatusServiceUnavailable {
		t.Errorf("/readyz without a ready API server: %d", got)
	}
	b.backends[0].set(true)
	if got := status("/readyz"); got != http.StatusOK {
		t.Errorf("/readyz: %d", got)
	}
}
