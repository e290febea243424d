package proxy

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/proxy/compile"
	"quintet.dev/quintet/internal/exposition"
)

// familyLabel is the label of the IP family.
const familyLabel = "ip_family"

// metrics are kube-proxy's, under upstream's names
// (https://kubernetes.io/docs/reference/instrumentation/metrics/).
type metrics struct {
	registry *prometheus.Registry
	// By IP family.
	syncDuration, fullSync, partialSync *prometheus.HistogramVec
	programming, flowsDuration          *prometheus.HistogramVec
	lastSync, lastQueued                *prometheus.GaugeVec
	failures, cleanupFailures           *prometheus.CounterVec
	deletedFlows                        *prometheus.CounterVec
	noLocalEndpoints                    *prometheus.GaugeVec // and traffic policy

	endpointChanges, serviceChanges   prometheus.Counter
	pendingEndpoints, pendingServices prometheus.Gauge
	healthzTotal, livezTotal          *prometheus.CounterVec // by code
}

func newMetrics() *metrics {
	r := register{prometheus.NewRegistry()}
	m := &metrics{
		registry: r.registry,
		syncDuration: r.durations("sync_proxy_rules_duration_seconds", "SyncProxyRules latency in seconds",
			fineBuckets()),
		fullSync: r.durations("sync_full_proxy_rules_duration_seconds",
			"SyncProxyRules latency in seconds for full resyncs", fineBuckets()),
		partialSync: r.durations("sync_partial_proxy_rules_duration_seconds",
			"SyncProxyRules latency in seconds for partial resyncs", fineBuckets()),
		programming: r.durations("network_programming_duration_seconds",
			"In Cluster Network Programming Latency in seconds", programmingBuckets()),
		flowsDuration: r.durations("conntrack_reconciler_sync_duration_seconds",
			"ReconcileConntrackFlowsLatency latency in seconds", fineBuckets()),
		lastSync: r.gauges("sync_proxy_rules_last_timestamp_seconds",
			"The last time proxy rules were successfully synced", familyLabel),
		lastQueued: r.gauges("sync_proxy_rules_last_queued_timestamp_seconds",
			"The last time a sync of proxy rules was queued", familyLabel),
		failures: r.counters("sync_proxy_rules_nftables_sync_failures_total",
			"Cumulative proxy nftables sync failures", familyLabel),
		cleanupFailures: r.counters("sync_proxy_rules_nftables_cleanup_failures_total",
			"Cumulative proxy nftables cleanup failures", familyLabel),
		deletedFlows: r.counters("conntrack_reconciler_deleted_entries_total",
			"Cumulative conntrack flows deleted by conntrack reconciler", familyLabel),
		noLocalEndpoints: r.gauges("sync_proxy_rules_no_local_endpoints_total",
			"Number of services with a Local traffic policy and no endpoints", familyLabel, "traffic_policy"),
		endpointChanges: r.counters("sync_proxy_rules_endpoint_changes_total",
			"Cumulative proxy rules Endpoint changes").WithLabelValues(),
		serviceChanges: r.counters("sync_proxy_rules_service_changes_total",
			"Cumulative proxy rules Service changes").WithLabelValues(),
		pendingEndpoints: r.gauges("sync_proxy_rules_endpoint_changes_pending",
			"Pending proxy rules Endpoint changes").WithLabelValues(),
		pendingServices: r.gauges("sync_proxy_rules_service_changes_pending",
			"Pending proxy rules Service changes").WithLabelValues(),
		healthzTotal: r.counters("proxy_healthz_total", "Cumulative proxy healthz HTTP status", "code"),
		livezTotal:   r.counters("proxy_livez_total", "Cumulative proxy livez HTTP status", "code"),
	}
	r.registry.MustRegister(exposition.BuildInfo(), collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// register makes metrics of a registry.
type register struct{ registry *prometheus.Registry }

const subsystem = "kubeproxy"

func (r register) durations(name, help string, buckets []float64) *prometheus.HistogramVec {
	opts := prometheus.HistogramOpts{Subsystem: subsystem, Name: name, Help: help, Buckets: buckets}
	m := prometheus.NewHistogramVec(opts, []string{familyLabel})
	r.registry.MustRegister(m)
	return m
}

func (r register) counters(name, help string, labels ...string) *prometheus.CounterVec {
	m := prometheus.NewCounterVec(prometheus.CounterOpts{Subsystem: subsystem, Name: name, Help: help}, labels)
	r.registry.MustRegister(m)
	return m
}

func (r register) gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	m := prometheus.NewGaugeVec(prometheus.GaugeOpts{Subsystem: subsystem, Name: name, Help: help}, labels)
	r.registry.MustRegister(m)
	return m
}

// fineBuckets are upstream's from a millisecond to 16 seconds.
func fineBuckets() []float64 { return prometheus.ExponentialBuckets(0.001, 2, 15) }

// programmingBuckets are upstream's: fine below a second, by seconds to a minute, by minutes beyond.
func programmingBuckets() []float64 {
	buckets := prometheus.LinearBuckets(0.25, 0.25, 2)
	buckets = append(buckets, prometheus.LinearBuckets(1, 1, 59)...)
	buckets = append(buckets, prometheus.LinearBuckets(60, 5, 12)...)
	return append(buckets, prometheus.LinearBuckets(120, 30, 7)...)
}

// serve makes the metrics of a family be there before anything happens.
func (m *metrics) serve(of v1.IPFamily) {
	for _, counter := range []*prometheus.CounterVec{m.failures, m.cleanupFailures, m.deletedFlows} {
		counter.WithLabelValues(string(of))
	}
	for _, gauge := range []*prometheus.GaugeVec{m.lastSync, m.lastQueued} {
		gauge.WithLabelValues(string(of))
	}
	for _, h := range []*prometheus.HistogramVec{
		m.syncDuration, m.fullSync, m.partialSync, m.programming, m.flowsDuration,
	} {
		h.WithLabelValues(string(of))
	}
	m.local(of, compile.NoLocalEndpoints{})
}

func (m *metrics) serviceChanged() {
	m.serviceChanges.Inc()
	m.pendingServices.Inc()
}

func (m *metrics) endpointsChanged() {
	m.endpointChanges.Inc()
	m.pendingEndpoints.Inc()
}

// queued tells that rules of a family are behind the API.
func (m *metrics) queued(of v1.IPFamily, now time.Time) {
	m.lastQueued.WithLabelValues(string(of)).Set(unixSeconds(now))
}

// taken tells that no change waits to be compiled.
func (m *metrics) taken() {
	m.pendingServices.Set(0)
	m.pendingEndpoints.Set(0)
}

// local counts the Services whose Local policy finds no endpoint.
func (m *metrics) local(of v1.IPFamily, n compile.NoLocalEndpoints) {
	m.noLocalEndpoints.WithLabelValues(string(of), "internal").Set(float64(n.Internal))
	m.noLocalEndpoints.WithLabelValues(string(of), "external").Set(float64(n.External))
}

// timed measures a sync, whether it succeeded or not.
func (m *metrics) timed(of v1.IPFamily, took time.Duration, full bool) {
	kind := m.partialSync
	if full {
		kind = m.fullSync
	}
	for _, h := range []*prometheus.HistogramVec{m.syncDuration, kind} {
		h.WithLabelValues(string(of)).Observe(took.Seconds())
	}
}

// synced records a successful sync, and the latency of each change of endpoints.
func (m *metrics) synced(of v1.IPFamily, now time.Time, triggers []time.Time) {
	m.lastSync.WithLabelValues(string(of)).Set(unixSeconds(now))
	for _, trigger := range triggers {
		m.programming.WithLabelValues(string(of)).Observe(now.Sub(trigger).Seconds())
	}
}

func unixSeconds(t time.Time) float64 { return float64(t.UnixNano()) / float64(time.Second) }
