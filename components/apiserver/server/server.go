// Package server is the front of the API server: listener, TLS, the chain that every request passes, health, metrics,
// and a shutdown that drains. What a request asks for is served by the handler that it is given.
package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/component-base/metrics/prometheus/slis"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/apiserver/handlers/answer"
	"quintet.dev/quintet/internal/health"
)

// Impersonation is the filter that lets users act as others, by the name under which its time is measured; nil leaves
// the headers alone.
type Impersonation struct {
	Name   string
	Filter func(next http.Handler) http.Handler
}

// Config of a Server.
type Config struct {
	// Listener is owned and closed by the server.
	Listener net.Listener
	// TLS serves HTTPS with HTTP/2; nil serves plain HTTP (tests).
	TLS *tls.Config

	// Authenticator authenticates requests. Unauthenticated requests are answered with 401.
	Authenticator authenticator.Request
	// Audit writes down what is asked and answered; nil writes nothing.
	Audit Audit
	// Tracing makes spans of requests; nil makes none.
	Tracing func(next http.Handler) http.Handler
	// Impersonation lets users act as others.
	Impersonation Impersonation
	// Fairness makes requests wait when there are too many; nil refuses those beyond the bounds in flight.
	Fairness func(next http.Handler) http.Handler
	// Authorizer authorizes requests.
	Authorizer authorizer.Authorizer

	// Last stands behind all other filters, before what serves the request; nil is none.
	Last func(next http.Handler) http.Handler
	// Edge answers or marks requests before authentication, as browsers and proxies want it; nil does nothing.
	Edge func(next http.Handler) http.Handler

	// API serves resource requests; Paths everything else, besides what the server itself answers (health, metrics).
	API   http.Handler
	Paths *Mux
	// Serves tells whether there is such a resource, of which requests are counted: those for others could have any
	// number of names. nil counts all.
	Serves func(info *request.RequestInfo) bool
	// Defined tells whether the resource is one of a definition; nil says that none is.
	Defined func(info *request.RequestInfo) bool
	// Route returns what serves a request in the place of both, or nil; it may be nil itself.
	Route func(r *http.Request) http.Handler
	// Installed tells whether all is known that is served, custom resources and other servers' APIs included; nil means
	// that it is.
	Installed func() bool

	// MaxInFlight and MaxMutatingInFlight bound the short requests served at a time; 0 means no bound.
	MaxInFlight, MaxMutatingInFlight int
	// RequestTimeout bounds short requests; 0 means a minute.
	RequestTimeout time.Duration
	// MaxStreams bounds the requests at a time on a connection of HTTP/2; 0 means a hundred, as of upstream.
	MaxStreams int
	Shutdown   Shutdown
	// Clock is the real one if nil.
	Clock clock.WithTicker

	// Live, Health and Ready are the named checks of /livez, /healthz and /readyz, in the order in which they are
	// shown.
	Live, Health, Ready []health.Check
	// Registry takes the server's metrics, and is what /metrics shows.
	Registry *prometheus.Registry
	// Gatherers are what else /metrics shows.
	Gatherers  []prometheus.Gatherer
	Exposition Exposition
}

// Server is the front of one API server.
type Server struct {
	config   Config
	http     *http.Server
	metrics  *metrics
	stopping atomic.Bool
	active   atomic.Int64 // requests under way
	// longRunning are those of them that have no deadline.
	longRunning atomic.Int64
	peaks       peaks
	answering   answering
	// responseGrace is the constant, but for tests.
	responseGrace time.Duration
	closing       chan struct{}   // closed when no more requests are taken
	stop          context.Context // ends when watches are to end
	stopNow       context.CancelFunc
	turns         time.Duration // over which watches are ended, known by the time of stop
}

// New prepares a server; nothing is served before Run.
func New(config Config) (*Server, error) {
	if config.Listener == nil || config.Authenticator == nil || config.Authorizer == nil || config.API == nil {
		return nil, errors.New("server: Listener, Authenticator, Authorizer and API are needed")
	}
	if config.RequestTimeout == 0 {
		config.RequestTimeout = time.Minute
	}
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	orElse(&config.Shutdown.Drain, config.RequestTimeout)
	orElse(&config.MaxStreams, 100)
	if config.Registry == nil {
		config.Registry = prometheus.NewRegistry()
	}
	if config.Paths == nil {
		config.Paths = NewMux()
	}
	s := &Server{config: config, closing: make(chan struct{}), responseGrace: responseGrace}
	s.stop, s.stopNow = context.WithCancel(context.Background())
	s.metrics = newMetrics(&config)
	s.installHealth()
	s.config.Paths.Exact("/metrics", s.metrics.handler(config.Registry, config.Gatherers, config.Exposition))
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(config.TLS == nil || slices.Contains(config.TLS.NextProtos, "h2"))
	if config.Exposition.Resets {
		slis.SLIMetricsWithReset{}.Install(handles{s.config.Paths})
	} else {
		slis.SLIMetrics{}.Install(handles{s.config.Paths})
	}
	s.http = &http.Server{
		Protocols:         protocols,
		Handler:           s.chain(http.HandlerFunc(s.dispatch)),
		TLSConfig:         config.TLS,
		ReadHeaderTimeout: 32 * time.Second,
		IdleTimeout:       90 * time.Second,
		MaxHeaderBytes:    1 << 20,
		ErrorLog:          log.New(&s.metrics.handshakes, "", 0),
		ConnState:         s.answering.note,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:          config.MaxStreams,
			SendPingTimeout:               pingAfter,
			PingTimeout:                   pingAnswer,
			WriteByteTimeout:              writeStall,
			MaxReadFrameSize:              1 << 16,
			MaxReceiveBufferPerStream:     1 << 18,
			MaxReceiveBufferPerConnection: 1 << 24,
		},
	}
	return s, nil
}

// A connection of HTTP/2 is asked whether its client is there when nothing has come for pingAfter; it ends when the
// answer takes longer than pingAnswer, or when nothing can be sent for writeStall. So partitioned or stopped clients
// hold no watches.
const (
	pingAfter  = 30 * time.Second
	pingAnswer = 15 * time.Second
	writeStall = time.Minute
)

// Handler is the whole chain, for use without a listener.
func (s *Server) Handler() http.Handler { return s.http.Handler }

// Run serves until ctx ends, then lets short requests under way finish, tells watches to end, and returns.
func (s *Server) Run(ctx context.Context) error {
	s.http.BaseContext = func(net.Listener) context.Context { return context.WithoutCancel(ctx) }
	if s.config.Fairness == nil {
		telling, told := context.WithCancel(context.WithoutCancel(ctx))
		var peaks sync.WaitGroup
		peaks.Go(func() { s.tellPeaks(telling) })
		defer peaks.Wait()
		defer told()
	}
	served := make(chan error, 1)
	go func() {
		if s.config.TLS != nil {
			served <- s.http.ServeTLS(gatherings{s.config.Listener}, "", "")
			return
		}
		served <- s.http.Serve(s.config.Listener)
	}()
	select {
	case err := <-served:
		return fmt.Errorf("serving on %s: %w", s.config.Listener.Addr(), err)
	case <-ctx.Done():
	}
	err := s.shutDown(context.WithoutCancel(ctx), served)
	_ = s.http.Close()
	if err == nil {
		<-served
	}
	return err
}

// dispatch is the end of the chain.
func (s *Server) dispatch(w http.ResponseWriter, r *http.Request) {
	if s.config.Route != nil {
		if h := s.config.Route(r); h != nil {
			h.ServeHTTP(w, r)
			return
		}
	}
	if strings.HasPrefix(r.URL.Path, "//") { // which tells of a resource when it is taken apart, but is no path of one
		answer.Unknown(w, r)
		return
	}
	if info := infoOf(r); info.IsResourceRequest {
		s.config.API.ServeHTTP(w, r)
		return
	}
	s.config.Paths.ServeHTTP(w, r)
}
