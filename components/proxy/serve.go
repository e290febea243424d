package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"quintet.dev/quintet/internal/profiles"
)

// listen binds the servers' addresses. Each of the functions serves one until ctx ends.
func (p *Proxy) listen(ctx context.Context) ([]func(context.Context) error, error) {
	health, metrics := http.NewServeMux(), http.NewServeMux()
	answers := p.health.Handler()
	health.Handle("/healthz", counted(p.metrics.healthzTotal, answers))
	health.Handle("/livez", counted(p.metrics.livezTotal, answers))
	metrics.Handle("/healthz", answers)
	metrics.Handle("/metrics", promhttp.HandlerFor(p.metrics.registry, promhttp.HandlerOpts{}))
	metrics.HandleFunc("/proxyMode", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		fmt.Fprint(w, p.config.Mode)
	})
	metrics.HandleFunc("/configz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"kubeproxy.config.k8s.io": p.config.configuration()})
	})
	for path, handler := range (profiles.Options{On: p.config.Profiling}).Begin() {
		metrics.Handle(path, handler)
	}
	var serve []func(context.Context) error
	for _, server := range []struct {
		flag, address string
		handler       http.Handler
	}{{"healthz-bind-address", p.config.HealthzAddress, health}, {"metrics-bind-address", p.config.MetricsAddress, metrics}} {
		if server.address == "" {
			continue
		}
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", anyFamily(server.address))
		if err != nil {
			return nil, fmt.Errorf("--%s %s: %w", server.flag, server.address, err)
		}
		serve = append(serve, func(ctx context.Context) error { return serveHTTP(ctx, listener, server.handler) })
	}
	return serve, nil
}

// anyFamily listens on both families where all addresses of IPv4 are meant, as upstream's server does.
func anyFamily(address string) string {
	if port, ok := strings.CutPrefix(address, "0.0.0.0:"); ok {
		return ":" + port
	}
	return address
}

// serveHTTP serves until ctx ends.
func serveHTTP(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return ctx.Err()
}

// counted counts answers by their code.
func counted(of *prometheus.CounterVec, handler http.Handler) http.Handler {
	return promhttp.InstrumentHandlerCounter(of, handler)
}
