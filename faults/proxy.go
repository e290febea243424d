package faults

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
)

// Proxy stands on the loopback interface before an API server, of any cluster, and disturbs the requests of the
// clients that use it. It may be used concurrently.
type Proxy struct {
	injector *Injector
	server   *http.Server
	address  string
	ca       []byte
	served   chan error
	requests atomic.Int64

	mu    sync.Mutex
	users map[string]*proxied // by token
}

// proxied is a user of the proxy: under whose name its requests are decided about, and how they reach the server.
type proxied struct {
	name    string
	forward http.Handler
}

// NewProxy starts a proxy; the caller closes it.
func NewProxy(injector *Injector) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	p := &Proxy{injector: injector, address: listener.Addr().String(), ca: certificate, served: make(chan error, 1),
		users: map[string]*proxied{}}
	p.server = &http.Server{Handler: http.HandlerFunc(p.serve), ReadHeaderTimeout: 10 * time.Second,
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}},
		ErrorLog:  log.New(io.Discard, "", 0)} // connections are meant to break
	go func() { p.served <- p.server.ServeTLS(listener, "", "") }()
	return p, nil
}

// For lets a client through: it returns a configuration by which requests reach the server of config through the
// proxy, with the credentials of config. Rules know them by user.
func (p *Proxy) For(user string, config *rest.Config) (*rest.Config, error) {
	host, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, err
	}
	secret := make([]byte, 16)
	if _, err := rand.Read(secret); err != nil {
		return nil, err
	}
	token := hex.EncodeToString(secret)
	p.mu.Lock()
	p.users[token] = &proxied{name: user, forward: forward(host, transport)}
	p.mu.Unlock()
	out := rest.AnonymousClientConfig(config)
	out.Host, out.BearerToken = "https://"+p.address, token
	out.TLSClientConfig = rest.TLSClientConfig{CAData: p.ca}
	out.Transport, out.Dial, out.Proxy = nil, nil, nil
	return out, nil
}

func forward(host *url.URL, transport http.RoundTripper) http.Handler {
	return &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = host.Scheme, host.Host, host.Host
			r.Out.Header.Del("Authorization") // the proxy's own token
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if errors.Is(err, context.Canceled) || r.Context().Err() != nil {
				panic(http.ErrAbortHandler)
			}
			http.Error(w, fmt.Sprintf("fault proxy: %v", err), http.StatusBadGateway)
		},
	}
}

func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	p.mu.Lock()
	user := p.users[token]
	p.mu.Unlock()
	if user == nil {
		http.Error(w, "fault proxy: use a configuration that it has made", http.StatusUnauthorized)
		return
	}
	p.requests.Add(1)
	p.injector.Handler(func(r *http.Request) string {
		if as := r.Header.Get("Impersonate-User"); as != "" {
			return as
		}
		return user.name
	}, user.forward).ServeHTTP(w, r)
}

// Requests is how many requests have come through.
func (p *Proxy) Requests() int64 { return p.requests.Load() }

// Close ends the proxy and all connections through it, and returns when it has ended.
func (p *Proxy) Close() error {
	err := p.server.Close()
	if served := <-p.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
