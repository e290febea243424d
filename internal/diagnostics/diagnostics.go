// Package diagnostics serves what operators ask a component: /healthz, /livez, /readyz, /metrics and /metrics/slis, and
// what the program tells of itself, over TLS.
package diagnostics

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"maps"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"
	"k8s.io/component-base/metrics/prometheus/slis"

	"quintet.dev/quintet/internal/certs"
	"quintet.dev/quintet/internal/delegated"
	"quintet.dev/quintet/internal/exposition"
	"quintet.dev/quintet/internal/health"
	"quintet.dev/quintet/internal/profiles"
	"quintet.dev/quintet/internal/zpages"
)

// Server answers health and metrics requests of one component.
type Server struct {
	// Listener is owned and closed by the server.
	Listener net.Listener
	// Gate authenticates and authorizes requests; it must be set.
	Gate *delegated.Gate
	// Certificate serves TLS; a self-signed one is made when it is nil.
	Certificate certs.GetFunc
	Serving     Serving
	// Metrics are served on /metrics; nil serves none.
	Metrics prometheus.Gatherer
	// Health holds the checks of /healthz; without checks it always succeeds. Each check has a path of its own below,
	// unless there are Later ones.
	Health []health.Check
	// Live and Ready are what /livez and /readyz ask; with no checks they aren't there.
	Live, Ready []health.Check
	// Later returns further checks of /healthz, which are added while the component starts; nil for none.
	Later func() []health.Check
	// Configuration is what /configz answers, by name; nil serves none.
	Configuration map[string]any
	// More is served besides, by path.
	More map[string]http.Handler
	// Profiling is served as far as that is wanted.
	Profiling profiles.Options
	// Program is what /statusz and /flagz tell of; nil serves neither. Run sets its paths.
	Program *zpages.Program
}

// Run serves until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	config, err := s.tls()
	if err != nil {
		_ = s.Listener.Close()
		return err
	}
	shown, err := s.Serving.Metrics.Exposition()
	if err != nil {
		_ = s.Listener.Close()
		return err
	}
	server := &http.Server{
		Handler:           s.Gate.Protect(s.handler(shown)),
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          log.New(discard{}, "", 0), // handshakes that fail are the prober's affair
		TLSConfig:         config,
	}
	if s.Serving.Streams > 0 {
		server.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: s.Serving.Streams}
	}
	group, ctx := errgroup.WithContext(ctx)
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	group.Go(func() error { return s.Gate.Run(ctx) })
	group.Go(func() error {
		if err := server.ServeTLS(s.Listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("diagnostics on %s: %w", s.Listener.Addr(), err)
		}
		return nil
	})
	return group.Wait()
}

// tls requests client certificates where they can be authenticated.
func (s *Server) tls() (*tls.Config, error) {
	config, err := s.Serving.Handshakes.TLS()
	if err != nil {
		return nil, err
	}
	if s.Certificate != nil {
		config.GetCertificate = s.Certificate
	} else {
		made, err := s.Serving.selfSignedAt(s.Listener.Addr())
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{*made}
	}
	if len(s.Gate.Authorities) > 0 {
		asking := config.Clone()
		asking.ClientAuth = tls.RequestClientCert
		config.GetConfigForClient = certs.Asking(asking, s.Gate.Authorities...)
	}
	return config, nil
}

func (s *Server) handler(shown exposition.Exposition) http.Handler {
	handlers := map[string]http.Handler{}
	maps.Copy(handlers, s.More)
	if s.Configuration != nil {
		handlers["/configz"] = http.HandlerFunc(s.configuration)
	}
	switch {
	case s.Later != nil:
		handlers["/healthz"] = health.Growing("healthz",
			func() []health.Check { return slices.Concat(s.Health, s.Later()) })
	case len(s.Health) == 0:
		maps.Copy(handlers, health.Handlers("healthz", health.Ping()))
	default:
		maps.Copy(handlers, health.Handlers("healthz", s.Health...))
	}
	for name, checks := range map[string][]health.Check{"livez": s.Live, "readyz": s.Ready} {
		if len(checks) > 0 {
			maps.Copy(handlers, health.Handlers(name, checks...))
		}
	}
	slis.SLIMetricsWithReset{}.Install(installed(handlers))
	if s.Metrics != nil {
		handlers["/metrics"] = promhttp.HandlerFor(shown.Of(s.Metrics), promhttp.HandlerOpts{})
	}
	if p := s.Program; p != nil {
		p.Paths = func() []string { return slices.Collect(maps.Keys(handlers)) }
		handlers[zpages.StatusPath] = p.Status()
		if p.Flags != nil {
			handlers[zpages.FlagsPath] = p.CommandLine()
		}
	}
	mux := http.NewServeMux()
	for path, h := range handlers {
		mux.Handle(path, h)
	}
	for path, h := range s.Profiling.Begin() {
		mux.Handle(path, h)
	}
	return mux
}

func (s *Server) configuration(w http.ResponseWriter, _ *http.Request) {
	body, err := json.Marshal(s.Configuration)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(body)
}

// installed collects what a library installs.
type installed map[string]http.Handler

func (i installed) Handle(path string, h http.Handler) { i[path] = h }

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
