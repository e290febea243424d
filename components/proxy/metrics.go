package proxy

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"k8s.io/utils/clock"
)

// metrics are kube-proxy's, under upstream's names.
type metrics struct {
	registry                 *prometheus.Registry
	syncDuration             prometheus.Histogram
	programming              prometheus.Histogram
	lastSync, lastQueued     prometheus.Gauge
	endpointChanges          prometheus.Counter
	serviceChanges           prometheus.Counter
	failures                 prometheus.Counter
	healthzTotal, livezTotal *prometheus.CounterVec
}

func newMetrics() *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		syncDuration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "kubeproxy_sync_proxy_rules_duration_seconds", Help: "SyncProxyRules latency in seconds",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
		}),
		programming: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "kubeproxy_network_programming_duration_seconds", Help: "In Cluster Network Programming Latency in seconds",
			Buckets: programmingBuckets(),
		}),
		lastSync: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "kubeproxy_sync_proxy_rules_last_timestamp_seconds", Help: "The last time proxy rules were successfully synced",
		}),
		lastQueued: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds", Help: "The last time a sync of proxy rules was queued",
		}),
		endpointChanges: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "kubeproxy_sync_proxy_rules_endpoint_changes_total", Help: "Cumulative proxy rules Endpoint changes",
		}),
		serviceChanges: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "kubeproxy_sync_proxy_rules_service_changes_total", Help: "Cumulative proxy rules Service changes",
		}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "kubeproxy_sync_proxy_rules_nftables_sync_failures_total", Help: "Cumulative proxy nftables sync failures",
		}),
		healthzTotal: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubeproxy_proxy_healthz_total", Help: "Cumulative proxy healthz HTTP status",
		}, []string{"code"}),
		livezTotal: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubeproxy_proxy_livez_total", Help: "Cumulative proxy livez HTTP status",
		}, []string{"code"}),
	}
	m.registry.MustRegister(m.syncDuration, m.programming, m.lastSync, m.lastQueued, m.endpointChanges, m.serviceChanges,
		m.failures, m.healthzTotal, m.livezTotal, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// programmingBuckets are upstream's: fine below a second, by seconds to a minute, by minutes beyond.
func programmingBuckets() []float64 {
	buckets := prometheus.LinearBuckets(0.25, 0.25, 2)
	buckets = append(buckets, prometheus.LinearBuckets(1, 1, 59)...)
	buckets = append(buckets, prometheus.LinearBuckets(60, 5, 12)...)
	return append(buckets, prometheus.LinearBuckets(120, 30, 7)...)
}

func (m *metrics) changed(service bool) {
	m.lastQueued.SetToCurrentTime()
	if service {
		m.serviceChanges.Inc()
	} else {
		m.endpointChanges.Inc()
	}
}

// synced counts a sync that succeeded, and how long each change of endpoints took to get there.
func (m *metrics) synced(began time.Time, clock clock.Clock, triggers []time.Time) {
	now := clock.Now()
	m.syncDuration.Observe(now.Sub(began).Seconds())
	m.lastSync.Set(float64(now.UnixNano()) / 1e9)
	for _, trigger := range triggers {
		m.programming.Observe(now.Sub(trigger).Seconds())
	}
}
