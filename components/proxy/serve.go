package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/component-base/metrics/prometheus/slis"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/internal/profiles"
	"quintet.dev/quintet/internal/zpages"
)

// rebindPeriod is how long an address that can't be bound is waited for.
const rebindPeriod = 5 * time.Second

// server is one address to serve on.
type server struct {
	flag, address string
	failure       string // the reason of the event of its end
	handler       http.Handler
}

// servers are those that are configured.
func (p *Proxy) servers() []server {
	all := []server{
		{"healthz-bind-address", p.config.HealthzAddress, "FailedToStartProxierHealthcheck", p.healthHandler()},
		{"metrics-bind-address", p.config.MetricsAddress, "FailedToStartMetricServer", p.metricsHandler()},
	}
	return slices.DeleteFunc(all, func(s server) bool { return s.address == "" })
}

func (p *Proxy) healthHandler() http.Handler {
	mux, answers := http.NewServeMux(), p.health.Handler()
	mux.Handle("/healthz", counted(p.metrics.healthzTotal, answers))
	mux.Handle("/livez", counted(p.metrics.livezTotal, answers))
	return mux
}

func (p *Proxy) metricsHandler() http.Handler {
	handlers := paths{
		"/healthz": p.health.Handler(),
		"/metrics": promhttp.HandlerFor(p.metrics.registry, promhttp.HandlerOpts{}),
		"/proxyMode": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			w.Header().Set("X-Content-Type-Options", "nosniff")
			fmt.Fprint(w, p.config.Mode)
		}),
		"/configz": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(map[string]any{"kubeproxy.config.k8s.io": p.config.configuration()})
		}),
	}
	slis.SLIMetricsWithReset{}.Install(handlers)
	maps.Copy(handlers, (profiles.Options{On: p.config.Profiling}).Begin())
	program := zpages.New("kube-proxy", p.config.Clock.Now, p.config.commandLine)
	program.Started = p.started
	if p.config.commandLine != nil && p.config.enabled(flagzGate) {
		handlers[zpages.FlagsPath] = program.CommandLine()
	}
	if p.config.enabled(statuszGate) {
		listed := slices.Sorted(maps.Keys(handlers))
		program.Paths = func() []string { return listed }
		handlers[zpages.StatusPath] = program.Status()
	}
	mux := http.NewServeMux()
	for path, handler := range handlers {
		mux.Handle(path, handler)
	}
	return mux
}

// paths are handlers by path.
type paths map[string]http.Handler

// Handle implements what package slis installs its handlers on.
func (p paths) Handle(path string, handler http.Handler) { p[path] = handler }

// serve serves until ctx ends. A failure ends it only with BindAddressHardFail, otherwise it is tried again.
func (p *Proxy) serve(ctx context.Context, s server) error {
	for {
		err := s.run(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if p.config.BindAddressHardFail {
			return err
		}
		klog.FromContext(ctx).Error(err, "Failed to serve; retrying", "after", rebindPeriod)
		retry := p.config.Clock.NewTimer(rebindPeriod)
		select {
		case <-ctx.Done():
			retry.Stop()
			return ctx.Err()
		case <-retry.C():
		}
	}
}

// run serves until ctx ends or the server fails.
func (s server) run(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", anyFamily(s.address))
	if err != nil {
		return fmt.Errorf("--%s %s: %w", s.flag, s.address, err)
	}
	of := &http.Server{Handler: s.handler, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = of.Close() })
	defer stop()
	if err := of.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("--%s %s: %w", s.flag, s.address, err)
	}
	return ctx.Err()
}

// anyFamily listens on both families where all addresses of IPv4 are meant, as upstream's server does.
func anyFamily(address string) string {
	if port, ok := strings.CutPrefix(address, "0.0.0.0:"); ok {
		return ":" + port
	}
	return address
}

// counted counts answers by their code.
func counted(of *prometheus.CounterVec, handler http.Handler) http.Handler {
	return promhttp.InstrumentHandlerCounter(of, handler)
}
