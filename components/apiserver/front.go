package apiserver

import (
	"github.com/prometheus/client_golang/prometheus"

	"quintet.dev/quintet/components/apiserver/audit"
	"quintet.dev/quintet/components/apiserver/handlers"
	"quintet.dev/quintet/components/apiserver/peers"
	"quintet.dev/quintet/components/apiserver/server"
)

// apiParts are what stands behind the request chain.
type apiParts struct {
	access
	catalog  *catalog
	api      *handlers.API
	peers    *peers.Peers
	audit    *audit.Auditor
	fairness *priorityAndFairness
	checks   *checks
}

// newFront makes what takes connections, and the request chain.
func newFront(b *base, s apiParts, p *progress) (*server.Server, error) {
	tls, err := tlsConfig(&b.config, s.authn)
	if err != nil {
		return nil, err
	}
	if err := b.registry.Register(s.catalog.aggregator); err != nil {
		return nil, err
	}
	serving := &b.config.Serving
	return server.New(server.Config{
		Listener: b.listener, TLS: tls,
		Authenticator: s.authn,
		Tracing:       traceRequests(b.tracing),
		Audit:         auditFilters(s.audit),
		Impersonation: newImpersonation(b, s.authz),
		Fairness:      s.fairness.filter(),
		Authorizer:    s.authz,
		API:           s.api, Serves: s.api.Serves, Defined: s.api.Defined,
		Paths: newPaths(b, s.access, s.catalog, s.fairness),
		Route: route(s.catalog, s.api, s.peers), Installed: p.installed.Load,
		MaxInFlight: b.config.MaxRequestsInFlight, MaxMutatingInFlight: b.config.MaxMutatingRequestsInFlight,
		RequestTimeout: b.config.RequestTimeout, MaxStreams: serving.HTTP2Streams,
		Edge: edge(*serving), Last: b.config.Filter, Clock: b.config.Clock,
		Shutdown: server.Shutdown{
			Delay: serving.ShutdownDelay, Left: p.left, RetryAfter: serving.ShutdownSendRetryAfter,
			WatchGrace: serving.ShutdownWatchGrace,
		},
		Live: s.checks.live(), Health: s.checks.health(), Ready: s.checks.ready(),
		Registry: b.registry, Gatherers: []prometheus.Gatherer{b.library}, Exposition: b.exposition,
	})
}
