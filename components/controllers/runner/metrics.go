package runner

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Metrics tell how the loops get on, under upstream's names of queue metrics. Each manager has its own.
type Metrics struct {
	registry *prometheus.Registry
	adds     *prometheus.CounterVec
	retries  *prometheus.CounterVec
	work     *prometheus.HistogramVec
}

// NewMetrics makes the metrics of one manager and registers them with registry.
func NewMetrics(registry *prometheus.Registry) *Metrics {
	m := &Metrics{
		registry: registry,
		adds:     prometheus.NewCounterVec(prometheus.CounterOpts{Name: "workqueue_adds_total", Help: "Keys added to the queue."}, []string{"name"}),
		retries:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "workqueue_retries_total", Help: "Reconciliations that failed and will be retried."}, []string{"name"}),
		work: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "workqueue_work_duration_seconds", Help: "Seconds one reconciliation took.", Buckets: prometheus.ExponentialBuckets(1e-5, 10, 8),
		}, []string{"name"}),
	}
	registry.MustRegister(m.adds, m.retries, m.work)
	return m
}

// queue makes the metrics of one loop. The receiver may be nil: nothing is measured then.
func (m *Metrics) queue(name string, depth func() int) queueMetrics {
	if m == nil {
		return queueMetrics{adds: func() {}, retries: func() {}, work: func(float64) {}}
	}
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "workqueue_depth", Help: "Keys that wait in the queue.", ConstLabels: prometheus.Labels{"name": name},
	}, func() float64 { return float64(depth()) }))
	return queueMetrics{
		adds:    m.adds.WithLabelValues(name).Inc,
		retries: m.retries.WithLabelValues(name).Inc,
		work:    m.work.WithLabelValues(name).Observe,
	}
}

type queueMetrics struct {
	adds, retries func()
	work          func(seconds float64)
}
