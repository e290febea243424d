// Package metrics counts and times what a kubelet does, under the names of upstream's metrics
// (https://kubernetes.io/docs/reference/instrumentation/metrics/). Each kubelet has metrics of its own.
package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"k8s.io/apimachinery/pkg/types"

	"quintet.dev/quintet/internal/exposition"
)

// Metrics are those of one kubelet. It is safe for concurrent use. What happens to pods may be told to nil, which takes
// nothing in.
type Metrics struct {
	// Registry gathers what /metrics answers, Probes what /metrics/probes does.
	Registry, Probes *prometheus.Registry
	// ClientRenewErrors counts client certificates that could not be renewed, ServerRotation takes in how long serving
	// certificates lived, in seconds.
	ClientRenewErrors prometheus.Counter
	ServerRotation    prometheus.Histogram

	startedPods, startedPodErrors             prometheus.Counter
	startedContainers, startedContainerErrors *prometheus.CounterVec
	podStart, podStartSLI, podStartTotal      prometheus.Histogram
	podWorkerStart                            prometheus.Histogram
	podWorker                                 *prometheus.HistogramVec
	relistDuration, relistInterval            prometheus.Histogram
	relistSeen                                prometheus.Gauge
	evictions, preemptions                    *prometheus.CounterVec
	pulls                                     *prometheus.HistogramVec
	operations, operationErrors               *prometheus.CounterVec
	operationDuration, cgroupDuration         *prometheus.HistogramVec
	httpRequests                              *prometheus.CounterVec
	httpDuration                              *prometheus.HistogramVec
	httpInflight                              *prometheus.GaugeVec
	probes                                    *prometheus.CounterVec
	probeDuration                             *prometheus.HistogramVec

	mu sync.Mutex
	// pulling is how long images of pods were pulled that do not run yet.
	pulling map[types.UID]time.Duration
}

const subsystem = "kubelet"

// New makes metrics of a node, in which nothing has happened yet, with the feature gates given.
func New(node string, gates map[string]bool) *Metrics {
	m := &Metrics{Registry: prometheus.NewRegistry(), Probes: prometheus.NewRegistry(),
		pulling: map[types.UID]time.Duration{}}
	r := register{m.Registry}
	m.ofPods(r)
	m.ofRuntime(r)
	m.ofServing(r)
	r.gauges("node_name", "The node's name. The count is always 1.", "node").WithLabelValues(node).Set(1)
	m.Registry.MustRegister(exposition.BuildInfo(), features(gates), collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.ofProbes()
	return m
}

func (m *Metrics) ofPods(r register) {
	m.startedPods = r.counter("started_pods_total", "Cumulative number of pods started")
	m.startedPodErrors = r.counter("started_pods_errors_total", "Cumulative number of errors when starting pods")
	m.startedContainers = r.counters("started_containers_total", "Cumulative number of containers started",
		"container_type")
	m.startedContainerErrors = r.counters("started_containers_errors_total",
		"Cumulative number of errors when starting containers", "container_type", "code")
	m.podStart = r.duration("pod_start_duration_seconds",
		"Duration in seconds from kubelet seeing a pod for the first time to the pod starting to run", startBuckets())
	m.podStartSLI = r.duration("pod_start_sli_duration_seconds",
		"Duration in seconds to start a pod, excluding time to pull images and run init containers", startBuckets())
	m.podStartTotal = r.duration("pod_start_total_duration_seconds",
		"Duration in seconds to start a pod since its creation, including time to pull images and run init containers",
		startBuckets())
	m.podWorker = r.durations("pod_worker_duration_seconds", "Duration in seconds to sync a single pod",
		prometheus.DefBuckets, "operation_type")
	m.podWorkerStart = r.duration("pod_worker_start_duration_seconds",
		"Duration in seconds from kubelet seeing a pod to starting a worker", prometheus.DefBuckets)
	m.evictions = r.counters("evictions", "Cumulative number of pod evictions by eviction signal", "eviction_signal")
	m.preemptions = r.counters("preemptions", "Cumulative number of pod preemptions by preemption resource",
		"preemption_signal")
}

func (m *Metrics) ofRuntime(r register) {
	m.relistDuration = r.duration("pleg_relist_duration_seconds", "Duration in seconds for relisting pods in PLEG",
		prometheus.DefBuckets)
	m.relistInterval = r.duration("pleg_relist_interval_seconds", "Interval in seconds between relisting in PLEG",
		prometheus.DefBuckets)
	m.relistSeen = r.gauges("pleg_last_seen_seconds", "Timestamp in seconds when PLEG was last seen active").
		WithLabelValues()
	m.pulls = r.durations("image_pull_duration_seconds", "Duration in seconds to pull an image", pullBuckets(),
		"image_size_in_bytes")
	m.operations = r.counters("runtime_operations_total", "Cumulative number of runtime operations by operation type",
		"operation_type")
	m.operationErrors = r.counters("runtime_operations_errors_total",
		"Cumulative number of runtime operation errors by operation type", "operation_type")
	m.operationDuration = r.durations("runtime_operations_duration_seconds",
		"Duration in seconds of runtime operations by operation type", prometheus.ExponentialBuckets(.005, 2.5, 14),
		"operation_type")
	m.cgroupDuration = r.durations("cgroup_manager_duration_seconds",
		"Duration in seconds for cgroup manager operations by method", prometheus.DefBuckets, "operation_type")
}

func (m *Metrics) ofServing(r register) {
	labels := []string{"method", "path", "server_type", "long_running"}
	m.httpRequests = r.counters("http_requests_total", "Number of the http requests received since the server started",
		labels...)
	m.httpDuration = r.durations("http_requests_duration_seconds", "Duration in seconds to serve http requests",
		prometheus.DefBuckets, labels...)
	m.httpInflight = r.gauges("http_inflight_requests", "Number of the inflight http requests", labels...)
	m.ClientRenewErrors = r.counter("certificate_manager_client_expiration_renew_errors",
		"Counter of certificate renewal errors")
	m.ServerRotation = r.duration("certificate_manager_server_rotation_seconds",
		"Histogram of the number of seconds the previous certificate lived before being rotated",
		[]float64{60, 3600, 4 * 3600, 24 * 3600, 7 * 24 * 3600, 30 * 24 * 3600, 3 * 30 * 24 * 3600, 6 * 30 * 24 * 3600,
			365 * 24 * 3600, 4 * 365 * 24 * 3600})
}

func (m *Metrics) ofProbes() {
	m.probes = prometheus.NewCounterVec(prometheus.CounterOpts{Subsystem: "prober", Name: "probe_total",
		Help: "Cumulative number of a liveness, readiness or startup probe for a container by result"},
		[]string{"probe_type", "result", "container", "pod", "namespace", "pod_uid"})
	m.probeDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{Subsystem: "prober",
		Name: "probe_duration_seconds", Help: "Duration in seconds for a probe response", Buckets: prometheus.DefBuckets},
		[]string{"probe_type", "container", "pod", "namespace"})
	m.Probes.MustRegister(m.probes, m.probeDuration)
}

// startBuckets are upstream's for starts of pods, in seconds.
func startBuckets() []float64 {
	return []float64{0.5, 1, 2, 3, 4, 5, 6, 8, 10, 20, 30, 45, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800,
		2700, 3600}
}

// pullBuckets are upstream's for pulls of images, in seconds.
func pullBuckets() []float64 {
	return []float64{1, 5, 10, 20, 30, 60, 180, 300, 600, 900, 1200, 1500, 1800, 2700, 3600}
}

// register makes metrics and takes them into its registry.
type register struct{ registry prometheus.Registerer }

func (r register) counters(name, help string, labels ...string) *prometheus.CounterVec {
	m := prometheus.NewCounterVec(prometheus.CounterOpts{Subsystem: subsystem, Name: name, Help: help}, labels)
	r.registry.MustRegister(m)
	return m
}

func (r register) counter(name, help string) prometheus.Counter {
	m := prometheus.NewCounter(prometheus.CounterOpts{Subsystem: subsystem, Name: name, Help: help})
	r.registry.MustRegister(m)
	return m
}

func (r register) gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	m := prometheus.NewGaugeVec(prometheus.GaugeOpts{Subsystem: subsystem, Name: name, Help: help}, labels)
	r.registry.MustRegister(m)
	return m
}

func (r register) durations(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	m := prometheus.NewHistogramVec(prometheus.HistogramOpts{Subsystem: subsystem, Name: name, Help: help,
		Buckets: buckets}, labels)
	r.registry.MustRegister(m)
	return m
}

func (r register) duration(name, help string, buckets []float64) prometheus.Histogram {
	m := prometheus.NewHistogram(prometheus.HistogramOpts{Subsystem: subsystem, Name: name, Help: help,
		Buckets: buckets})
	r.registry.MustRegister(m)
	return m
}

// Expires adds the time that is left of a certificate, which at tells: "client" or "server". The time is zero while
// there is none.
func (m *Metrics) Expires(certificate string, at func() time.Time, now func() time.Time) {
	m.Registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Subsystem: subsystem,
		Name: "certificate_manager_" + certificate + "_ttl_seconds",
		Help: "Gauge of the shortest TTL (time-to-live) of the kubelet's " + certificate + " certificate",
	}, func() float64 { return left(at(), now()) }))
}
