package runner

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/util/workqueue"
)

// metrics are those of the queues, under upstream's names, each with the name of the queue as its label.
type metrics struct {
	depth, unfinished, longest *prometheus.GaugeVec
	adds, retries              *prometheus.CounterVec
	waited, worked             *prometheus.HistogramVec
}

// NewMetrics makes the metrics of one manager's queues and registers them with registry.
func NewMetrics(registry prometheus.Registerer) workqueue.MetricsProvider {
	labels := []string{"name"}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "workqueue_" + name, Help: "[BETA] " + help}, labels)
	}
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "workqueue_" + name, Help: "[BETA] " + help},
			labels)
	}
	histogram := func(name, help string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "workqueue_" + name, Help: "[BETA] " + help, Buckets: prometheus.ExponentialBuckets(10e-9, 10, 10),
		}, labels)
	}
	m := &metrics{
		depth: gauge("depth", "Current depth of workqueue"),
		unfinished: gauge("unfinished_work_seconds",
			"How many seconds of work has done that is in progress and hasn't been observed by work_duration. "+
				"Large values indicate stuck threads. One can deduce the number of stuck threads by observing the rate at which "+
				"this increases."),
		longest: gauge("longest_running_processor_seconds",
			"How many seconds has the longest running processor for workqueue been running."),
		adds:    counter("adds_total", "Total number of adds handled by workqueue"),
		retries: counter("retries_total", "Total number of retries handled by workqueue"),
		waited: histogram("queue_duration_seconds",
			"How long in seconds an item stays in workqueue before being requested."),
		worked: histogram("work_duration_seconds", "How long in seconds processing an item from workqueue takes."),
	}
	registry.MustRegister(m.depth, m.unfinished, m.longest, m.adds, m.retries, m.waited, m.worked)
	return m
}

// NewDepthMetric and the others implement workqueue.MetricsProvider.
func (m *metrics) NewDepthMetric(queue string) workqueue.GaugeMetric {
	return m.depth.WithLabelValues(queue)
}

func (m *metrics) NewAddsMetric(queue string) workqueue.CounterMetric {
	return m.adds.WithLabelValues(queue)
}

func (m *metrics) NewLatencyMetric(queue string) workqueue.HistogramMetric {
	return m.waited.WithLabelValues(queue)
}

func (m *metrics) NewWorkDurationMetric(queue string) workqueue.HistogramMetric {
	return m.worked.WithLabelValues(queue)
}

func (m *metrics) NewUnfinishedWorkSecondsMetric(queue string) workqueue.SettableGaugeMetric {
	return m.unfinished.WithLabelValues(queue)
}

func (m *metrics) NewLongestRunningProcessorSecondsMetric(queue string) workqueue.SettableGaugeMetric {
	return m.longest.WithLabelValues(queue)
}

func (m *metrics) NewRetriesMetric(queue string) workqueue.CounterMetric {
	return m.retries.WithLabelValues(queue)
}
