package cloudprovider

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

	"quintet.dev/quintet/components/cloudprovider/forward"
	probes "quintet.dev/quintet/internal/health"
)

// unhealthyAfter is how long the kernel's routes may be behind the API.
const unhealthyAfter = time.Minute

// syncHealth tells whether load balancers are in force. It is safe for concurrent use.
type syncHealth struct {
	clock clock.PassiveClock

	mu      sync.Mutex
	synced  bool      // once at least
	failing time.Time // since when; zero while syncs succeed
}

func (h *syncHealth) note(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err == nil:
		h.synced, h.failing = true, time.Time{}
	case h.failing.IsZero():
		h.failing = h.clock.Now()
	}
}

// probe fails until routes were synced with the API's objects, and while that has been failing for long.
func (h *syncHealth) probe(*http.Request) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.synced {
		return errors.New("routes of load balancers have not been synced yet")
	}
	if !h.failing.IsZero() && h.clock.Since(h.failing) > unhealthyAfter {
		return fmt.Errorf("syncs of routes have failed since %s", h.failing.Format(time.RFC3339))
	}
	return nil
}

// synced takes note of a sync of the kernel.
func (p *CloudProvider) synced(began time.Time, wanted forward.State, err error) {
	p.health.note(err)
	p.metrics.synced(began, p.config.Clock.Now(), wanted, err)
}

// listen binds the address of health checks and metrics. The function that it returns serves until ctx ends.
func (p *CloudProvider) listen(ctx context.Context) (serve func(context.Context) error, err error) {
	if p.config.HealthzAddress == "" {
		return func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, nil
	}
	mux := http.NewServeMux()
	routes := probes.Check{Name: "routes", Probe: p.health.probe}
	for path, handler := range probes.Handlers("healthz", probes.Ping(), routes) {
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
			return fmt.Errorf("--healthz-bind-address %s: %w", p.config.HealthzAddress, err)
		}
		return ctx.Err()
	}, nil
}
