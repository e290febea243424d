package runner

import "github.com/prometheus/client_golang/prometheus"

// Counter makes a counter of the controller, subsystem_name, as upstream's manager calls it. Without labels it is there
// from the start. A metric can be made once per registry.
func (e Env) Counter(subsystem, name, help string, labels ...string) *prometheus.CounterVec {
	m := prometheus.NewCounterVec(prometheus.CounterOpts{Subsystem: subsystem, Name: name, Help: help}, labels)
	if len(labels) == 0 {
		m.WithLabelValues()
	}
	e.register(m)
	return m
}

// Gauge makes a gauge; see Counter.
func (e Env) Gauge(subsystem, name, help string, labels ...string) *prometheus.GaugeVec {
	m := prometheus.NewGaugeVec(prometheus.GaugeOpts{Subsystem: subsystem, Name: name, Help: help}, labels)
	if len(labels) == 0 {
		m.WithLabelValues()
	}
	e.register(m)
	return m
}

// GaugeFunc makes a gauge that value tells when it is read; see Counter.
func (e Env) GaugeFunc(subsystem, name, help string, value func() float64) {
	e.register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Subsystem: subsystem, Name: name, Help: help}, value))
}

// Histogram makes a histogram; see Counter.
func (e Env) Histogram(subsystem, name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	m := prometheus.NewHistogramVec(prometheus.HistogramOpts{Subsystem: subsystem, Name: name, Help: help,
		Buckets: buckets}, labels)
	if len(labels) == 0 {
		m.WithLabelValues()
	}
	e.register(m)
	return m
}

// Collect registers metrics that c tells when they are read.
func (e Env) Collect(c prometheus.Collector) { e.register(c) }

func (e Env) register(c prometheus.Collector) {
	if e.Registry != nil {
		e.Registry.MustRegister(c)
	}
}
