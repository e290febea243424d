package runner

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Counter makes a counter of the controller, subsystem_name, as upstream's manager calls it. Without labels it is there
// from the start. Made again, of two controllers that count together, it is the same.
func (e Env) Counter(subsystem, name, help string, labels ...string) *prometheus.CounterVec {
	m := prometheus.NewCounterVec(prometheus.CounterOpts{Subsystem: subsystem, Name: name, Help: help}, labels)
	if len(labels) == 0 {
		m.WithLabelValues()
	}
	return register(e, m)
}

// Gauge makes a gauge; see Counter.
func (e Env) Gauge(subsystem, name, help string, labels ...string) *prometheus.GaugeVec {
	m := prometheus.NewGaugeVec(prometheus.GaugeOpts{Subsystem: subsystem, Name: name, Help: help}, labels)
	if len(labels) == 0 {
		m.WithLabelValues()
	}
	return register(e, m)
}

// GaugeFunc makes a gauge that value tells when it is read; see Counter.
func (e Env) GaugeFunc(subsystem, name, help string, value func() float64) {
	register(e, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Subsystem: subsystem, Name: name, Help: help}, value))
}

// Histogram makes a histogram; see Counter.
func (e Env) Histogram(subsystem, name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	m := prometheus.NewHistogramVec(prometheus.HistogramOpts{Subsystem: subsystem, Name: name, Help: help,
		Buckets: buckets}, labels)
	if len(labels) == 0 {
		m.WithLabelValues()
	}
	return register(e, m)
}

// Collect registers metrics that c tells when they are read.
func (e Env) Collect(c prometheus.Collector) { register(e, c) }

// register returns c, or what is registered already under its names. It panics if that is something else.
func register[C prometheus.Collector](e Env, c C) C {
	if e.Registry == nil {
		return c
	}
	err := e.Registry.Register(c)
	if err == nil {
		return c
	}
	var have prometheus.AlreadyRegisteredError
	if errors.As(err, &have) {
		if existing, same := have.ExistingCollector.(C); same {
			return existing
		}
	}
	panic(err)
}
