package policy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/utils/clock"

	probes "quintet.dev/quintet/internal/health"
)

// unhealthyAfter is how long rules may be behind the API.
const unhealthyAfter = time.Minute

// health tells whether rules are in force.
type health struct {
	clock clock.Clock

	mu      sync.Mutex
	written bool      // once at least
	failing time.Time // since when; zero while syncs succeed
}

// synced notes whether rules were written or found in place.
func (h *health) synced(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err == nil:
		h.written, h.failing = true, time.Time{}
	case h.failing.IsZero(): // the first failure in a row
		h.failing = h.clock.Now()
	}
}

// probe fails until rules were written, and while they could not be for long.
func (h *health) probe(*http.Request) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.written {
		return errors.New("rules were not written yet")
	}
	if !h.failing.IsZero() && h.clock.Since(h.failing) > unhealthyAfter {
		return fmt.Errorf("syncs fail since %s", h.failing.Format(time.RFC3339))
	}
	return nil
}

// listen binds the server's address. The function that it returns serves until ctx ends; it is nil where nothing is to
// be served.
func (p *Policy) listen(ctx context.Context) (func(context.Context) error, error) {
	if p.config.HealthzAddress == "" {
		return nil, nil
	}
	mux := http.NewServeMux()
	rules := probes.Check{Name: "rules", Probe: p.health.probe}
	for path, handler := range probes.Handlers("healthz", probes.Ping(), rules) {
		mux.Handle(path, handler)
	}
	mux.Handle("/metrics", promhttp.HandlerFor(p.metrics.registry, promhttp.HandlerOpts{}))
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", p.config.HealthzAddress)
	if err != nil {
		return nil, fmt.Errorf("--healthz-bind-address %s: %w", p.config.HealthzAddress, err)
	}
	return func(ctx context.Context) error {
		server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
		stop := context.AfterFunc(ctx, func() { _ = server.Close() })
		defer stop()
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return ctx.Err()
	}, nil
}
