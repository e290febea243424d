package metricsserver

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"quintet.dev/quintet/components/metricsserver/usage"
)

// metrics carry upstream's names.
type metrics struct {
	registry  *prometheus.Registry
	tick      prometheus.Histogram
	duration  *prometheus.HistogramVec
	requests  *prometheus.CounterVec
	last      *prometheus.GaugeVec
	points    *prometheus.GaugeVec
	freshness prometheus.Histogram
}

func newMetrics() *metrics {
	const prefix = "metrics_server_"
	m := &metrics{
		registry: prometheus.NewRegistry(),
		tick: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: prefix + "manager_tick_duration_seconds",
			Help: "Seconds that it took to collect and store metrics of all nodes.",
		}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: prefix + "kubelet_request_duration_seconds", Help: "Seconds that requests to kubelets took.",
		}, []string{"node"}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "kubelet_request_total", Help: "Requests to kubelets.",
		}, []string{"success"}),
		last: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: prefix + "kubelet_last_request_time_seconds",
			Help: "Time of the last request to a kubelet, in seconds since the epoch.",
		}, []string{"node"}),
		points: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: prefix + "storage_points", Help: "Points that are stored, by type.",
		}, []string{"type"}),
		freshness: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: prefix + "api_metric_freshness_seconds", Help: "Seconds since what is served was measured.",
			Buckets: prometheus.ExponentialBuckets(1, 1.364, 20),
		}),
	}
	m.registry.MustRegister(m.tick, m.duration, m.requests, m.last, m.points, m.freshness,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *metrics) ticked(took time.Duration, state *usage.State) {
	m.tick.Observe(took.Seconds())
	nodes, containers := state.Points()
	m.points.WithLabelValues("node").Set(float64(nodes))
	m.points.WithLabelValues("container").Set(float64(containers))
}

// forget drops the series of a node that is gone.
func (m *metrics) forget(node string) {
	m.duration.DeleteLabelValues(node)
	m.last.DeleteLabelValues(node)
}

func (m *metrics) scraped(node string, began time.Time, took time.Duration, err error) {
	m.duration.WithLabelValues(node).Observe(took.Seconds())
	m.requests.WithLabelValues(strconv.FormatBool(err == nil)).Inc()
	m.last.WithLabelValues(node).Set(float64(began.Unix()))
}
