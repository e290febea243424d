package controllers

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/internal/exposition"
)

// tellOfItself registers the metrics of the manager itself, under upstream's names.
func (m *Manager) tellOfItself() error {
	gates, err := m.config.gates()
	if err != nil {
		return err
	}
	m.leading = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "leader_election_master_status", Help: "1 while this instance holds the lease.",
	}, []string{"name"})
	m.leading.WithLabelValues(m.config.LeaderElection.ResourceName)
	m.managed = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "running_managed_controllers", Help: "1 for each controller that runs.",
	}, []string{"name", "manager"})
	var errs []error
	for _, c := range []prometheus.Collector{exposition.BuildInfo(), exposition.Features(gates), m.leading, m.managed} {
		errs = append(errs, m.registry.Register(c))
	}
	return errors.Join(errs...)
}

// requests are the metrics of requests to API servers.
type requests struct {
	clock                clock.PassiveClock
	total                *prometheus.CounterVec
	took, sent, received *prometheus.HistogramVec
}

func newRequests(registry prometheus.Registerer, clock clock.PassiveClock) *requests {
	histogram := func(name, help string, buckets []float64) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "rest_client_" + name, Help: help,
			Buckets: buckets}, []string{"verb", "host"})
	}
	sizes := []float64{64, 256, 512, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216}
	r := &requests{
		clock: clock,
		total: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "rest_client_requests_total",
			Help: "Requests by the code of the answer, the method and the host."}, []string{"code", "method", "host"}),
		took: histogram("request_duration_seconds", "How long answers took to begin.",
			[]float64{0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60}),
		sent:     histogram("request_size_bytes", "Size of the bodies of requests.", sizes),
		received: histogram("response_size_bytes", "Size of the bodies of answers, where it is known.", sizes),
	}
	registry.MustRegister(r.total, r.took, r.sent, r.received)
	return r
}

// measure counts the requests that pass next.
func (r *requests) measure(next http.RoundTripper) http.RoundTripper {
	return &measured{requests: r, next: next}
}

type measured struct {
	*requests
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (m *measured) RoundTrip(request *http.Request) (*http.Response, error) {
	began, host := m.clock.Now(), request.URL.Host
	response, err := m.next.RoundTrip(request)
	m.took.WithLabelValues(request.Method, host).Observe(m.clock.Since(began).Seconds())
	if request.ContentLength >= 0 {
		m.sent.WithLabelValues(request.Method, host).Observe(float64(request.ContentLength))
	}
	code := "<error>"
	if err == nil {
		code = strconv.Itoa(response.StatusCode)
		if response.ContentLength >= 0 {
			m.received.WithLabelValues(request.Method, host).Observe(float64(response.ContentLength))
		}
	}
	m.total.WithLabelValues(code, request.Method, host).Inc()
	return response, err
}

// WrappedRoundTripper implements net.RoundTripperWrapper, by which connections are closed.
func (m *measured) WrappedRoundTripper() http.RoundTripper { return m.next }
