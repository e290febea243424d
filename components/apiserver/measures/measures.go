// Package measures are the metrics of what lies between the front and the store, under upstream's names
// (https://kubernetes.io/docs/reference/instrumentation/metrics/): watches, admission, caches, the store, and what the program
// is.
package measures

import (
	"runtime"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/component-base/featuregate"
)

// Program tells which release runs, and which of its features are on.
func Program(registry prometheus.Registerer, info version.Info, features map[featuregate.Feature]featuregate.FeatureSpec) error {
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "kubernetes_build_info",
		Help: "What the program was built from, and for what.",
	}, []string{"major", "minor", "git_version", "git_commit", "git_tree_state", "build_date", "go_version", "compiler", "platform"})
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
	registry.MustRegister(r.events, r.sizes, r.deprecated)
	return r
}

// Deprecated notes that somebody asked for what is to go, in the release removed if that is known.
func (r *Requests) Deprecated(of schema.GroupVersionResource, subresource, removed string) {
	r.deprecated.WithLabelValues(of.Group, of.Version, of.Resource, subresource, removed).Set(1)
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
