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

// balanced starts a balancer before servers and returns a client of it, which opens a connection for each request.
func balanced(t *testing.T, servers ...*httptest.Server) func() (string, error) {
	t.Helper()
	config := NewConfig()
	config.Period = 10 * time.Millisecond
	ca := servers[0].Certificate()
	config.CAFile = filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(config.CAFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw}),
		0o600); err != nil {
		t.Fatal(err)
	}
	for _, s := range servers {
		config.Backends = append(config.Backends, s.Listener.Addr().String())
	}
	b, err := New(*config)
	if err != nil {
		t.Fatal(err)
	}
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
	roots.AddCert(ca)
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

// TestFailureThreshold: a backend is out of favour with the first check that fails, and loses its connections with the
// third in a row, once.
func TestFailureThreshold(t *testing.T) {
	b := newBackend("127.0.0.1:1")
	connect := func() net.Conn {
		near, far := net.Pipe()
		t.Cleanup(func() { _ = near.Close() })
		if !b.add(far, b.lossCount()) {
			t.Fatal("the backend takes no connection")
		}
		return near
	}
	conn := connect()
	for i, check := range []struct {
		ready bool
		want  outcome
	}{
		{true, outcome{changed: true}}, {false, outcome{changed: true}}, {false, outcome{}}, {true, outcome{changed: true}},
		{false, outcome{changed: true}}, {false, outcome{}}, {false, outcome{closed: true}}, {false, outcome{}},
	} {
		if got := b.set(check.ready, 3); got != check.want {
			t.Errorf("check %d: %+v, want %+v", i, got, check.want)
		}
		if ready, _ := b.state(); ready != check.ready {
			t.Errorf("check %d: new connections: %v", i, ready)
		}
		_ = conn.SetReadDeadline(time.Now().Add(time.Millisecond))
		_, err := conn.Read(make([]byte, 1))
		if closed := errors.Is(err, io.EOF); closed != (i >= 6) {
			t.Errorf("check %d: connection closed: %v", i, closed)
		}
	}
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
	b.backends[0].set(true, 1)
	if got := status("/readyz"); got != http.StatusOK {
		t.Errorf("/readyz: %d", got)
	}
}
