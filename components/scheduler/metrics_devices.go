package scheduler

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"quintet.dev/quintet/components/scheduler/plugins/dynamicresources"
)

// deviceMetrics are those of devices whose binding conditions are waited for (KEP-5007).
type deviceMetrics struct {
	waits *prometheus.CounterVec
	took  *prometheus.HistogramVec
}

func newDeviceMetrics() *deviceMetrics {
	labels := []string{"profile", "driver", "status"}
	return &deviceMetrics{
		waits: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "scheduler_dra_bindingconditions_allocations_total",
			Help: "[ALPHA] Waits for the binding conditions of a driver's devices, by status: success, failure or " +
				"timeout.",
		}, labels),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "scheduler_dra_bindingconditions_wait_duration_seconds",
			Help:    "[ALPHA] Seconds of waiting for the binding conditions of a driver's devices.",
			Buckets: prometheus.ExponentialBuckets(0.1, 2, 14),
		}, labels),
	}
}

func (m *deviceMetrics) awaited(profile, driver string, outcome dynamicresources.Outcome, took time.Duration) {
	m.waits.WithLabelValues(profile, driver, string(outcome)).Inc()
	m.took.WithLabelValues(profile, driver, string(outcome)).Observe(took.Seconds())
}
