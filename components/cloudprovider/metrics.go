package cloudprovider

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/cloudprovider/forward"
	"quintet.dev/quintet/components/cloudprovider/pool"
)

// metrics tell how syncs go and how many addresses there are.
type metrics struct {
	registry  *prometheus.Registry
	duration  prometheus.Histogram
	lastSync  prometheus.Gauge
	failures  prometheus.Counter
	addresses *prometheus.GaugeVec
	dropping  prometheus.Gauge
}

func newMetrics() *metrics {
	const prefix = "cloud_provider_"
	m := &metrics{
		registry: prometheus.NewRegistry(),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: prefix + "sync_duration_seconds", Help: "Latency of syncing routes of load balancers in seconds",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 12),
		}),
		lastSync: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: prefix + "last_sync_timestamp_seconds", Help: "The last time routes were successfully synced",
		}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: prefix + "sync_failures_total", Help: "Cumulative failures to sync routes",
		}),
		addresses: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: prefix + "load_balancer_addresses", Help: "Addresses that load balancers have, by family",
		}, []string{"family"}),
		dropping: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: prefix + "load_balancer_addresses_without_nodes",
			Help: "Addresses of load balancers that no node takes packets of",
		}),
	}
	m.registry.MustRegister(m.duration, m.lastSync, m.failures, m.addresses, m.dropping,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// synced counts a sync.
func (m *metrics) synced(began, ended time.Time, wanted forward.State, err error) {
	if err != nil {
		m.failures.Inc()
		return
	}
	m.duration.Observe(ended.Sub(began).Seconds())
	m.lastSync.Set(float64(ended.UnixNano()) / 1e9)
	count := map[v1.IPFamily]int{v1.IPv4Protocol: 0, v1.IPv6Protocol: 0}
	dropping := 0
	for _, route := range wanted.Routes {
		count[pool.Family(route.Address)]++
		if len(route.Via) == 0 {
			dropping++
		}
	}
	for family, n := range count {
		m.addresses.WithLabelValues(string(family)).Set(float64(n))
	}
	m.dropping.Set(float64(dropping))
}
