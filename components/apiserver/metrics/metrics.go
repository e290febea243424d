// Package metrics are the metrics of what lies between the front and the store, under upstream's names
// (https://kubernetes.io/docs/reference/instrumentation/metrics/): watches, admission, caches, the store, and what the
// program is.
package metrics

import (
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/component-base/featuregate"

	"quintet.dev/quintet/components/apiserver/connect"
)

// Program tells which release runs, and which of its features are on.
func Program(registry prometheus.Registerer, info version.Info,
	features map[featuregate.Feature]featuregate.FeatureSpec) error {
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "kubernetes_build_info",
		Help: "What the program was built from, and for what.",
	}, []string{"major", "minor", "git_version", "git_commit", "git_tree_state", "build_date", "go_version", "compiler",
		"platform"})
	build.WithLabelValues(info.Major, info.Minor, info.GitVersion, info.GitCommit, info.GitTreeState, info.BuildDate,
		runtime.Version(), runtime.Compiler, runtime.GOOS+"/"+runtime.GOARCH).Set(1)
	enabled := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "kubernetes_feature_enabled",
		Help: "Which features are on (1) and off (0), by name and stage.",
	}, []string{"name", "stage"})
	for name, spec := range features {
		on := 0.0
		if spec.Default {
			on = 1
		}
		enabled.WithLabelValues(string(name), string(spec.PreRelease)).Set(on)
	}
	emulation := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "version_info",
		Help: "Which release the program is, as which it behaves, and what it works with.",
	}, []string{"component", "binary", "emulation", "min_compat"})
	emulation.WithLabelValues("kube", strings.TrimPrefix(info.GitVersion, "v"),
		info.EmulationMajor+"."+info.EmulationMinor,
		info.MinCompatibilityMajor+"."+info.MinCompatibilityMinor).Set(1)
	if err := registry.Register(emulation); err != nil {
		return err
	}
	if err := registry.Register(build); err != nil {
		return err
	}
	return registry.Register(enabled)
}

// Requests measures what handlers do; it implements handlers.Meter.
type Requests struct {
	events     *prometheus.CounterVec
	sizes      *prometheus.HistogramVec
	deprecated *prometheus.GaugeVec
	initial    *prometheus.HistogramVec
}

// NewRequests registers the metrics of handlers.
func NewRequests(registry prometheus.Registerer) *Requests {
	labels := []string{"group", "version", "resource"}
	r := &Requests{
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_watch_events_total", Help: "Events sent to clients that watch.",
		}, labels),
		sizes: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "apiserver_watch_events_sizes", Help: "Bytes of events sent to clients that watch.",
			Buckets: prometheus.ExponentialBuckets(1024, 2, 8),
		}, labels),
		deprecated: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "apiserver_requested_deprecated_apis", Help: "APIs that are to go, and were asked for.",
		}, []string{"group", "version", "resource", "subresource", "removed_release"}),
	}
	r.initial = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "apiserver_watch_list_duration_seconds",
		Help:    "Time until a watch that was to begin with what there is had sent all of that.",
		Buckets: []float64{0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 15, 20, 30, 45, 60},
	}, append(labels[:3:3], "scope"))
	registry.MustRegister(r.events, r.sizes, r.deprecated, r.initial)
	return r
}

// Deprecated records that a deprecated API was requested, which ends with the release removed if that is known.
func (r *Requests) Deprecated(of schema.GroupVersionResource, subresource, removed string) {
	r.deprecated.WithLabelValues(of.Group, of.Version, of.Resource, subresource, removed).Set(1)
}

// Began notes how long a watch took to send what there was.
func (r *Requests) Began(of schema.GroupVersionResource, scope string, took time.Duration) {
	r.initial.WithLabelValues(of.Group, of.Version, of.Resource, scope).Observe(took.Seconds())
}

// Sent returns what takes the size of each event that a watch sends.
func (r *Requests) Sent(of schema.GroupVersionResource) func(bytes int) {
	count := r.events.WithLabelValues(of.Group, of.Version, of.Resource)
	size := r.sizes.WithLabelValues(of.Group, of.Version, of.Resource)
	return func(bytes int) {
		count.Inc()
		size.Observe(float64(bytes))
	}
}

// joined is a resource as metrics without a label for its group have it.
func joined(r schema.GroupResource) string { return strings.TrimSuffix(r.String(), ".") }

// Counters registers counters that begin with a prefix, and returns what adds one to each by the rest of its name.
func Counters[T ~string](registry prometheus.Registerer, prefix, help string, names []T) func(T) {
	counters := map[T]prometheus.Counter{}
	for _, name := range names {
		counters[name] = prometheus.NewCounter(prometheus.CounterOpts{Name: prefix + string(name), Help: help})
		registry.MustRegister(counters[name])
	}
	return func(name T) { counters[name].Inc() }
}

// PodLogs returns what counts reads of logs, by how the kubelet's certificate is looked at.
func PodLogs(registry prometheus.Registerer) func(connect.LogUse) {
	uses := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "kube_apiserver_pod_logs_insecure_backend_total",
		Help: "Reads of logs, by whether the kubelet's certificate is verified.",
	}, []string{"usage"})
	failures := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "kube_apiserver_pod_logs_backend_tls_failure_total",
		Help: "Reads of logs that failed as the kubelet's certificate is not good.",
	})
	registry.MustRegister(uses, failures)
	return func(use connect.LogUse) {
		if use == connect.TLSFailure {
			failures.Inc()
			return
		}
		uses.WithLabelValues(string(use)).Inc()
	}
}

// Issued returns what counts certificates that were issued to who asked for a duration, by signer if that is one of
// Kubernetes' own.
func Issued(registry prometheus.Registerer) func(signer string, honored bool) {
	counter := func(what, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_certificates_registry_csr_" + what + "_duration_total", Help: help,
		}, []string{"signerName"})
	}
	requested := counter("requested", "Certificates that were issued to who asked for a duration.")
	honored := counter("honored", "Certificates that were issued for about the duration that was asked for.")
	registry.MustRegister(requested, honored)
	return func(signer string, was bool) {
		if !strings.HasPrefix(signer, "kubernetes.io/") {
			signer = "other"
		}
		requested.WithLabelValues(signer).Inc()
		if was {
			honored.WithLabelValues(signer).Inc()
		}
	}
}

// Graph returns what takes the times of changes of what the authorizer of nodes knows.
func Graph(registry prometheus.Registerer) func(operation string, took time.Duration) {
	duration := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "node_authorizer_graph_actions_duration_seconds", Help: "Time that a change of what nodes need took.",
		Buckets: prometheus.ExponentialBuckets(0.0001, 2, 12),
	}, []string{"operation"})
	registry.MustRegister(duration)
	return func(operation string, took time.Duration) {
		duration.WithLabelValues(operation).Observe(took.Seconds())
	}
}

// Certificates returns what takes how long the certificates are still good that clients show, request by request.
func Certificates(registry prometheus.Registerer) func(remaining time.Duration) {
	const hour, day = 60 * 60, 24 * 60 * 60
	left := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "apiserver_client_certificate_expiration_seconds",
		Help: "How long the certificates that clients show are still good.",
		Buckets: []float64{0, hour / 2, hour, 2 * hour, 6 * hour, 12 * hour, day, 2 * day, 4 * day, 7 * day, 30 * day,
			90 * day, 180 * day, 360 * day},
	})
	registry.MustRegister(left)
	return func(remaining time.Duration) { left.Observe(remaining.Seconds()) }
}
