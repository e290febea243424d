package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apiserver/pkg/admission"
)

// Admission measures the plug-ins of admission and the steps that they make up; see admission.Meter.
type Admission struct {
	plugins *prometheus.HistogramVec
	steps   *prometheus.HistogramVec
	summary *prometheus.SummaryVec
}

// NewAdmission registers the metrics of admission.
func NewAdmission(registry prometheus.Registerer) *Admission {
	histogram := func(name, help string, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: name, Help: help, Buckets: []float64{0.005, 0.025, 0.1, 0.5, 1, 2.5},
		}, labels)
	}
	a := &Admission{
		plugins: histogram("apiserver_admission_controller_admission_duration_seconds",
			"Time that an admission plug-in took.",
			"name", "type", "operation", "rejected"),
		steps: histogram("apiserver_admission_step_admission_duration_seconds",
			"Time that all admission plug-ins took.",
			"type", "operation", "rejected"),
	}
	a.summary = prometheus.NewSummaryVec(prometheus.SummaryOpts{
		Name:       "apiserver_admission_step_admission_duration_seconds_summary",
		Help:       "Time that all admission plug-ins took, in quantiles.",
		Objectives: map[float64]float64{0.5: 0.05, 0.9: 0.01, 0.99: 0.001}, MaxAge: 5 * time.Hour,
	}, []string{"type", "operation", "rejected"})
	registry.MustRegister(a.plugins, a.steps, a.summary)
	return a
}

// Plugin returns what takes the times of a plug-in in a step, "admit" or "validate".
func (a *Admission) Plugin(name, step string) func(took time.Duration, o admission.Operation, rejected bool) {
	return observers(func(o admission.Operation, rejected string) prometheus.Observer {
		return a.plugins.WithLabelValues(name, step, string(o), rejected)
	})
}

// Step returns what takes the times of a whole step.
func (a *Admission) Step(step string) func(took time.Duration, o admission.Operation, rejected bool) {
	return observers(func(o admission.Operation, rejected string) prometheus.Observer {
		return both{a.steps.WithLabelValues(step, string(o), rejected),
			a.summary.WithLabelValues(step, string(o), rejected)}
	})
}

// both observes twice.
type both [2]prometheus.Observer

// Observe implements prometheus.Observer.
func (b both) Observe(v float64) {
	b[0].Observe(v)
	b[1].Observe(v)
}

// observers looks the metrics of what is not rejected up once, as every write passes all plug-ins; and not before there
// is something to observe, as most operations never come.
func observers(of func(o admission.Operation, rejected string) prometheus.Observer) func(time.Duration,
	admission.Operation, bool) {
	once := func(o admission.Operation) func() prometheus.Observer {
		return sync.OnceValue(func() prometheus.Observer { return of(o, "false") })
	}
	creates, updates, deletes, connects := once(admission.Create), once(admission.Update), once(admission.Delete),
		once(admission.Connect)
	return func(took time.Duration, o admission.Operation, rejected bool) {
		observer := creates
		switch {
		case rejected:
			of(o, "true").Observe(took.Seconds())
			return
		case o == admission.Update:
			observer = updates
		case o == admission.Delete:
			observer = deletes
		case o == admission.Connect:
			observer = connects
		}
		observer().Observe(took.Seconds())
	}
}
