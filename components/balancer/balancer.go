// Package balancer stands before the API servers of a cluster and leads each connection to one that answers, so that
// clients survive the loss of any of them. It passes bytes on: TLS is between the client and the API server.
package balancer

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// Config of a balancer.
type Config struct {
	Listen   string   // host:port
	Backends []string // host:port of API servers
	CAFile   string   // PEM; signs the API servers' certificates
	// Period is how often each backend is asked whether it is ready, Timeout how long it may take to answer.
	Period, Timeout time.Duration

	// Injected by tests, instead of the system's clock.
	Clock clock.WithTicker
}

// NewConfig returns the defaults.
func NewConfig() *Config {
	return &Config{Listen: "0.0.0.0:6443", Period: 250 * time.Millisecond, Timeout: time.Second}
}

// AddFlags adds the flags of the program.
func (c *Config) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.Listen, "listen", c.Listen, "Address to listen on, host:port.")
	fs.StringSliceVar(&c.Backends, "backend", c.Backends, "An API server, host:port; may be repeated.")
	fs.StringVar(&c.CAFile, "certificate-authority", c.CAFile, "File with the authority of the API servers' certificates.")
	fs.DurationVar(&c.Period, "check-period", c.Period, "How often each API server is asked whether it is ready.")
	fs.DurationVar(&c.Timeout, "check-timeout", c.Timeout, "How long an API server may take to answer that.")
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
		return nil, fmt.Errorf("--check-period %v and --check-timeout %v: use durations greater than 0", config.Period, config.Timeout)
	}
	pem, err := os.ReadFile(config.CAFile)
	if err != nil {
		return nil, fmt.Errorf("--certificate-authority: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("--certificate-authority %s: no certificate in PEM", config.CAFile)
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

// Run serves until ctx ends. All connections end with it.
func (b *Balancer) Run(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", b.config.Listen)
	if err != nil {
		return fmt.Errorf("--listen %s: %w", b.config.Listen, err)
	}
	return b.Serve(ctx, listener)
}

// Serve is Run on a listener, which it closes.
func (b *Balancer) Serve(ctx context.Context, listener net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	var running tasks
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
			return err
		}
		running.Go(func() { b.forward(ctx, client) })
	}
}

// watch asks a backend again and again. One that is not ready any more loses its connections, so that watches of
// clients go on elsewhere.
func (b *Balancer) watch(ctx context.Context, to *backend) {
	ticker := b.config.Clock.NewTicker(b.config.Period)
	defer ticker.Stop()
	for {
		err := b.check(ctx, to)
		if ctx.Err() != nil {
			return
		}
		if changed := to.set(err == nil); changed && err != nil {
			klog.FromContext(ctx).Info("API server is not ready; closing its connections", "backend", to.address, "err", err)
			to.closeAll()
		} else if changed {
			klog.FromContext(ctx).Info("API server is ready", "backend", to.address)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
	}
}

// check asks whether a backend is ready. One that wants to know who asks is there, too.
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
