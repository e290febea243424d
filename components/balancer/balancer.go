// Package balancer stands before the API servers of a cluster and leads each connection to one that answers, so that
// clients survive the loss of any of them. It passes bytes on: TLS is between the client and the API server.
package balancer

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// Config of a balancer.
type Config struct {
	Listen   string   // host:port
	Backends []string // host:port of API servers
	CAFile   string   // PEM; signs the API servers' certificates. "" are the authorities that the machine trusts.
	// HealthAddress is where /healthz and /readyz are served without TLS, host:port; "" is nowhere.
	HealthAddress string
	// Period is how often each backend is asked whether it is ready, Timeout how long it may take to answer.
	Period, Timeout time.Duration
	// FailureThreshold is how many checks in a row fail before a backend loses its connections, if others are ready. It
	// gets no new one from the first on: one that is slow for a moment costs no request.
	FailureThreshold int

	// Injected by tests, instead of the system's clock.
	Clock clock.WithTicker
}

// NewConfig returns the defaults.
func NewConfig() *Config {
	return &Config{Listen: "0.0.0.0:6443", Period: 250 * time.Millisecond, Timeout: time.Second, FailureThreshold: 3}
}

// AddFlags adds the flags of the program.
func (c *Config) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.Listen, "listen", c.Listen, "Address to listen on, host:port.")
	fs.StringSliceVar(&c.Backends, "backend", c.Backends, "An API server, host:port; may be repeated.")
	fs.StringVar(&c.CAFile, "certificate-authority", c.CAFile,
		"File with the authority of the API servers' certificates. "+
			"By default, those that the machine trusts.")
	fs.StringVar(&c.HealthAddress, "health-bind-address", c.HealthAddress, "Address to serve /healthz and /readyz on, "+
		"host:port, without TLS. The balancer is ready while an API server is. Empty serves them nowhere.")
	fs.DurationVar(&c.Period, "check-period", c.Period, "How often each API server is asked whether it is ready.")
	fs.DurationVar(&c.Timeout, "check-timeout", c.Timeout, "How long an API server may take to answer that.")
	fs.IntVar(&c.FailureThreshold, "failure-threshold", c.FailureThreshold, "How many checks in a row an API server "+
		"fails before its connections are closed, if others are ready. New ones go to those from the first on.")
}

// Balancer is a layer 4 load balancer.
type Balancer struct {
	config   Config
	backends []*backend
	client   *http.Client
}

// New checks the configuration.
func New(config Config) (*Balancer, error) {
	if len(config.Backends) == 0 {
		return nil, errors.New("--backend is required")
	}
	if config.Period <= 0 || config.Timeout <= 0 {
		return nil, fmt.Errorf("--check-period %v and --check-timeout %v: use durations greater than 0", config.Period,
			config.Timeout)
	}
	if config.FailureThreshold <= 0 {
		return nil, fmt.Errorf("--failure-threshold %d: use a number greater than 0", config.FailureThreshold)
	}
	pool, err := authorities(config.CAFile)
	if err != nil {
		return nil, err
	}
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	b := &Balancer{config: config, client: &http.Client{
		Timeout: config.Timeout,
		Transport: &http.Transport{
			// A new connection each time: an old one tells nothing of whether the next client gets through.
			DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
		},
	}}
	for _, address := range config.Backends {
		if _, _, err := net.SplitHostPort(address); err != nil {
			return nil, fmt.Errorf("--backend %q: want host:port: %w", address, err)
		}
		b.backends = append(b.backends, newBackend(address))
	}
	return b, nil
}

// authorities are those of a file, or the machine's (nil) if there is none.
func authorities(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("--certificate-authority: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("--certificate-authority %s: no certificate in PEM", file)
	}
	return pool, nil
}

// Run serves until ctx ends. All connections end with it.
func (b *Balancer) Run(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", b.config.Listen)
	if err != nil {
		return fmt.Errorf("--listen %s: %w", b.config.Listen, err)
	}
	if b.config.HealthAddress == "" {
		return b.Serve(ctx, listener)
	}
	healthListener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", b.config.HealthAddress)
	if err != nil {
		_ = listener.Close()
		return fmt.Errorf("--health-bind-address %s: %w", b.config.HealthAddress, err)
	}
	server := &http.Server{Handler: b.health(), ReadHeaderTimeout: b.config.Timeout}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(healthListener) })
	defer serving.Wait()
	defer server.Close()
	return b.Serve(ctx, listener)
}

// Serve is Run on a listener, which it closes.
func (b *Balancer) Serve(ctx context.Context, listener net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { <-ctx.Done(); _ = listener.Close() })
	for _, backend := range b.backends {
		running.Go(func() { b.watch(ctx, backend) })
	}
	for {
		client, err := listener.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if !passes(err) {
				return err
			}
			klog.FromContext(ctx).Error(err, "Failed to accept a connection; retrying")
			select {
			case <-ctx.Done():
			case <-b.config.Clock.After(acceptRetryDelay):
			}
			continue
		}
		running.Go(func() { b.forward(ctx, client) })
	}
}

// acceptRetryDelay is the pause after a failure to accept a connection.
const acceptRetryDelay = 10 * time.Millisecond

// passes tells whether connections may be accepted again after an error.
func passes(err error) bool {
	for _, passing := range []error{
		syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED,
	} {
		if errors.Is(err, passing) {
			return true
		}
	}
	return false
}

// health tells by /healthz that the balancer runs, and by /readyz whether an API server is ready.
func (b *Balancer) health() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if b.anyReady(nil) {
			_, _ = io.WriteString(w, "ok")
			return
		}
		http.Error(w, "no API server is ready", http.StatusServiceUnavailable)
	})
	return mux
}

// watch polls a backend until ctx ends.
func (b *Balancer) watch(ctx context.Context, to *backend) {
	ticker := b.config.Clock.NewTicker(b.config.Period)
	defer ticker.Stop()
	for {
		b.look(ctx, to)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
	}
}

// look checks a backend. One that stays unready loses its connections when others are ready, so that watches of clients
// go on there.
func (b *Balancer) look(ctx context.Context, to *backend) {
	logger := klog.FromContext(ctx).WithValues("backend", to.address)
	err := b.check(ctx, to)
	if ctx.Err() != nil {
		return
	}
	changed, failures := to.set(err == nil)
	switch {
	case changed && err != nil:
		logger.Info("API server is not ready", "err", err)
	case changed:
		logger.Info("API server is ready")
	}
	if failures >= b.config.FailureThreshold && b.anyReady(to) {
		if closed := to.closeConns(); closed > 0 {
			logger.Info("API server stays unready; closed its connections", "connections", closed, "err", err)
		}
	}
}

// anyReady tells whether a backend is ready; except does not count, and is nil for none.
func (b *Balancer) anyReady(except *backend) bool {
	return slices.ContainsFunc(b.backends, func(other *backend) bool {
		ready, _ := other.state()
		return ready && other != except
	})
}

// check probes the readiness of a backend. One that requires authentication counts as ready.
func (b *Balancer) check(ctx context.Context, to *backend) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+to.address+"/readyz", nil)
	if err != nil {
		return err
	}
	response, err := b.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusOK, http.StatusUnauthorized, http.StatusForbidden:
		return nil
	default:
		return fmt.Errorf("GET /readyz: %s", response.Status)
	}
}
