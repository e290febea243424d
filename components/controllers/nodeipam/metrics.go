package nodeipam

import (
	"net/netip"

	"github.com/prometheus/client_golang/prometheus"

	"quintet.dev/quintet/components/controllers/runner"
)

// metrics are those of upstream's controller, by the range that nodes' are taken from.
type metrics struct {
	allocations, releases *prometheus.CounterVec
	usage, size           *prometheus.GaugeVec
	tries                 *prometheus.HistogramVec
}

// measures are the metrics of one range.
type measures struct {
	allocations, releases prometheus.Counter
	usage                 prometheus.Gauge
	tries                 prometheus.Observer
}

func newMetrics(env runner.Env) metrics {
	const subsystem, label = "node_ipam_controller", "clusterCIDR"
	return metrics{
		allocations: env.Counter(subsystem, "cidrset_cidrs_allocations_total", "Ranges that were taken.", label),
		releases:    env.Counter(subsystem, "cidrset_cidrs_releases_total", "Ranges that were given back.", label),
		usage:       env.Gauge(subsystem, "cidrset_usage_cidrs", "Share of the ranges that are taken, from 0 to 1.", label),
		// upstream writes it so
		size: env.Gauge(subsystem, "cirdset_max_cidrs", "Ranges that there are.", label),
		tries: env.Histogram(subsystem, "cidrset_allocation_tries_per_request",
			"Ranges found taken before a free one.", prometheus.ExponentialBuckets(1, 5, 5), label),
	}
}

func (m metrics) of(cidr netip.Prefix, count int) measures {
	name := cidr.String()
	m.size.WithLabelValues(name).Set(float64(count))
	return measures{allocations: m.allocations.WithLabelValues(name), releases: m.releases.WithLabelValues(name),
		usage: m.usage.WithLabelValues(name), tries: m.tries.WithLabelValues(name)}
}
