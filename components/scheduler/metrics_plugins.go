package scheduler

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
)

// measureEvery is of how many tries one has each of its plug-ins measured.
const measureEvery = 10

// pluginMetrics are those of extension points and of plug-ins.
type pluginMetrics struct {
	points    *histograms
	plugins   *histograms
	evaluated *prometheus.CounterVec
	permits   *prometheus.HistogramVec
	hints     *prometheus.HistogramVec
}

func newPluginMetrics() *pluginMetrics {
	fine := prometheus.ExponentialBuckets(0.00001, 1.5, 20)
	return &pluginMetrics{
		points: newKnown("scheduler_framework_extension_point_duration_seconds",
			"[STABLE] Seconds that the plug-ins of an extension point took. PreScore is a part of Score.",
			prometheus.ExponentialBuckets(0.0001, 2, 12), "extension_point", "status", "profile"),
		plugins: newKnown("scheduler_plugin_execution_duration_seconds",
			"[ALPHA] Seconds that a plug-in took at an extension point, in one of ten tries.", fine,
			"plugin", "extension_point", "status"),
		evaluated: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "scheduler_plugin_evaluation_total",
			Help: "[BETA] Calls of plug-ins at PreFilter, Filter, PreScore and Score that had something to say.",
		}, []string{"plugin", "extension_point", "profile"}),
		permits: newHistograms("scheduler_permit_wait_duration_seconds",
			"[BETA] Seconds that pods waited for permission.", prometheus.ExponentialBuckets(0.001, 2, 15), "result"),
		hints: newHistograms("scheduler_queueing_hint_execution_duration_seconds",
			"[ALPHA] Seconds that one of ten queueing hints took.", fine, "plugin", "event", "hint"),
	}
}

func newHistograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
}

// histograms are a vector of three labels that remembers its members, as to find one by its labels takes longer than to
// observe a value.
type histograms struct {
	*prometheus.HistogramVec
	lock  sync.RWMutex
	known map[[3]string]prometheus.Observer
}

func newKnown(name, help string, buckets []float64, labels ...string) *histograms {
	return &histograms{HistogramVec: newHistograms(name, help, buckets, labels...),
		known: map[[3]string]prometheus.Observer{}}
}

func (h *histograms) observe(took time.Duration, labels [3]string) {
	h.lock.RLock()
	member := h.known[labels]
	h.lock.RUnlock()
	if member == nil {
		member = h.WithLabelValues(labels[:]...)
		h.lock.Lock()
		h.known[labels] = member
		h.lock.Unlock()
	}
	member.Observe(took.Seconds())
}

func (m *pluginMetrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.points, m.plugins, m.evaluated, m.permits, m.hints}
}

// hinted measures a queueing hint.
func (m *pluginMetrics) hinted(plugin, cause string, helps bool, took time.Duration) {
	result := "QueueSkip"
	if helps {
		result = "Queue"
	}
	m.hints.WithLabelValues(plugin, cause, result).Observe(took.Seconds())
}

// profileObserver measures the plug-ins of one profile. It implements commit.Observer.
type profileObserver struct {
	*pluginMetrics
	clock   clock.PassiveClock
	profile string
}

// Now is when something begins.
func (o *profileObserver) Now() time.Time { return o.clock.Now() }

// Point measures an extension point.
func (o *profileObserver) Point(point, status string, began time.Time) {
	o.points.observe(o.clock.Since(began), [3]string{point, status, o.profile})
}

// Plugin measures a plug-in.
func (o *profileObserver) Plugin(plugin, point, status string, began time.Time) {
	o.plugins.observe(o.clock.Since(began), [3]string{plugin, point, status})
}

// Evaluated counts calls of a plug-in.
func (o *profileObserver) Evaluated(plugin, point string, times int) {
	o.evaluated.WithLabelValues(plugin, point, o.profile).Add(float64(times))
}

// Waited measures how long a pod waited for permission.
func (o *profileObserver) Waited(status string, began time.Time) {
	o.permits.WithLabelValues(status).Observe(o.clock.Since(began).Seconds())
}
