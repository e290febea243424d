package policy

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"quintet.dev/quintet/components/policy/model"
)

// metrics tell how syncs go and how much there is to enforce. They may be used by several goroutines.
type metrics struct {
	registry            *prometheus.Registry
	duration            prometheus.Histogram
	lastSync            prometheus.Gauge
	failures, restores  prometheus.Counter
	policies, addresses *prometheus.GaugeVec // by direction
	peerSets            prometheus.Gauge
}

func newMetrics() *metrics {
	opts := func(name, help string) prometheus.GaugeOpts {
		return prometheus.GaugeOpts{Name: "network_policy_" + name, Help: help}
	}
	direction := []string{"direction"}
	m := &metrics{
		registry: prometheus.NewRegistry(),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "network_policy_sync_duration_seconds", Help: "Latency of writing rules in seconds",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
		}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "network_policy_sync_failures_total", Help: "Cumulative failures to write or to check rules",
		}),
		restores: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "network_policy_restores_total",
			Help: "Cumulative times that rules were found altered by another program",
		}),
		lastSync: prometheus.NewGauge(opts("last_sync_timestamp_seconds",
			"The last time rules were successfully written")),
		policies: prometheus.NewGaugeVec(opts("policies", "NetworkPolicies of the cluster, by direction"), direction),
		addresses: prometheus.NewGaugeVec(opts("isolated_addresses", "Addresses of isolated pods of this node"),
			direction),
		peerSets: prometheus.NewGauge(opts("peer_sets", "Sets of addresses or ports that policies refer to")),
	}
	m.registry.MustRegister(m.duration, m.lastSync, m.failures, m.restores, m.policies, m.addresses, m.peerSets,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// synced counts a sync.
func (m *metrics) synced(took time.Duration, began time.Time, now *model.Model, err error) {
	if err != nil {
		m.failures.Inc()
		return
	}
	m.duration.Observe(took.Seconds())
	m.lastSync.Set(float64(began.Add(took).UnixNano()) / 1e9)
	policies, addresses := map[model.Direction]int{}, map[model.Direction]int{}
	for key := range now.Policies {
		policies[key.Direction]++
	}
	for at := range now.Pods {
		addresses[at.Direction]++
	}
	for _, direction := range model.Directions() {
		m.policies.WithLabelValues(string(direction)).Set(float64(policies[direction]))
		m.addresses.WithLabelValues(string(direction)).Set(float64(addresses[direction]))
	}
	m.peerSets.Set(float64(len(now.Sets)))
}
