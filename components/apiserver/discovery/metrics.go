package discovery

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics have upstream's names.
type metrics struct{ made, alone, hits, misses prometheus.Counter }

func newMetrics() *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "aggregator_discovery_" + name, Help: help})
	}
	return &metrics{
		made: counter("aggregation_count_total", "How often what all group versions tell was put together."),
		alone: counter("nopeer_requests_total",
			"Requests for what this API server tells without the others of its cluster."),
		hits: counter("peer_aggregated_cache_hits_total",
			"Requests for what all API servers tell that were answered with what had been put together."),
		misses: counter("peer_aggregated_cache_misses_total",
			"Requests for what all API servers tell that made it be put together."),
	}
}

// Register registers the metrics.
func (s *Server) Register(registry prometheus.Registerer) error {
	m := s.metrics
	return errors.Join(registry.Register(m.made), registry.Register(m.alone), registry.Register(m.hits),
		registry.Register(m.misses))
}

// count counts a use of an aggregated document that was made before, or for this use. Documents tell of other API
// servers unless these are left out, or none is known.
func (m *metrics) count(of documentKey, found, peers bool) {
	if of.alone {
		m.alone.Inc()
	}
	switch joint := peers && !of.alone && of.path == "/apis"; {
	case joint && found:
		m.hits.Inc()
	case joint:
		m.misses.Inc()
	case !found && of.path == "/apis":
		m.made.Inc()
	}
}
