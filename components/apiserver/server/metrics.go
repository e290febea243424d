package server

import (
	"bufio"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// metrics carry upstream's names
// (https://kubernetes.io/docs/reference/instrumentation/metrics/), as dashboards expect.
type metrics struct {
	requests    *prometheus.CounterVec
	series      memo[served, *series] // of the vectors below
	duration    *prometheus.HistogramVec
	inFlight    *prometheus.GaugeVec
	longRunning *prometheus.GaugeVec
	size        *prometheus.HistogramVec
	sli         *prometheus.HistogramVec
	bodies      *prometheus.HistogramVec
	validation  *prometheus.HistogramVec
	validated   memo[string, prometheus.Observer] // of validation
	handshakes  handshakes
	access      *accessMetrics
	mutating    prometheus.Gauge // of inFlight
	reading     prometheus.Gauge
	own         *prometheus.CounterVec
	started     time.Time // the process, as near as it matters
}

func newMetrics(registry *prometheus.Registry) *metrics {
	m := &metrics{
		started: time.Now(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_request_total",
			Help: "Requests served, by verb, resource and response code.",
		}, []string{"verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "apiserver_request_duration_seconds",
			Help:    "Time from the first byte of a request to the end of its response.",
			Buckets: []float64{0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60},
		}, []string{"verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component"}),
		inFlight: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "apiserver_current_inflight_requests",
			Help: "Short requests being served.",
		}, []string{"request_kind"}),
		longRunning: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "apiserver_longrunning_requests",
			Help: "Watches and connections being served.",
		}, []string{"verb", "group", "version", "resource", "subresource", "scope", "component"}),
		size: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "apiserver_response_sizes",
			Help:    "Bytes of response bodies.",
			Buckets: prometheus.ExponentialBuckets(1000, 10, 7),
		}, []string{"verb", "group", "version", "resource", "subresource", "scope", "component"}),
	}
	m.addMore()
	m.mutating, m.reading = m.inFlight.WithLabelValues(kindMutating), m.inFlight.WithLabelValues(kindReadOnly)
	registry.MustRegister(m.requests, m.duration, m.inFlight, m.longRunning, m.size, m.sli, m.bodies, m.validation, m.own, m.handshakes.failed)
	m.access = newAccessMetrics(registry)
	return m
}

// component is what label component says of requests for resources.
const component = "apiserver"

// withMetrics counts and times requests.
func (s *Server) withMetrics(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info := infoOf(r)
		if !info.IsResourceRequest {
			s.countPath(w, r, next)
			return
		}
		if s.config.Serves != nil && !s.config.Serves(info) {
			next.ServeHTTP(w, r)
			return
		}
		of := servedOf(r, info)
		if LongRunning(r, info) {
			gauge := s.metrics.longRunning.WithLabelValues(of.verb, of.group, of.version, of.resource, of.subresource, of.scope, component)
			gauge.Inc()
			defer gauge.Dec()
		}
		start := time.Now()
		record := &recorder{ResponseWriter: w}
		defer s.noteEnd(r, info, record, of.verb, of.group, of.resource, of.subresource)
		defer func() {
			series := s.metrics.series.get(of, s.metrics.newSeries)
			series.requests.get(record.status(), series.counter).Inc()
			took := time.Since(start)
			series.duration.Observe(took.Seconds())
			s.metrics.noteValidation(r)
			if series.sli != nil {
				series.sli.Observe(ours(r, took).Seconds())
			}
			if r.ContentLength > 0 {
				s.metrics.bodies.WithLabelValues(info.APIGroup, info.Resource, info.Verb).Observe(float64(r.ContentLength))
			}
			if series.size != nil {
				series.size.Observe(float64(record.size))
			}
		}()
		next.ServeHTTP(record, r)
	})
}

// dryRunOf is the parameter in the form of metrics: what it can't be has one name for all.
func dryRunOf(r *http.Request) string {
	if !strings.Contains(r.URL.RawQuery, "dryRun") {
		return ""
	}
	values := r.URL.Query()["dryRun"]
	switch {
	case len(values) == 0:
		return ""
	case slices.ContainsFunc(values, func(v string) bool { return v != metav1.DryRunAll }):
		return "invalid"
	}
	return metav1.DryRunAll
}

// validationOf is the parameter in the form of metrics.
func validationOf(r *http.Request) string {
	if !strings.Contains(r.URL.RawQuery, "fieldValidation") {
		return ""
	}
	values := r.URL.Query()["fieldValidation"]
	if len(values) != 1 || len(validation.ValidateFieldValidation(nil, values[0])) > 0 {
		return "invalid"
	}
	return values[0]
}

func scopeOf(info *request.RequestInfo) string {
	switch {
	case !info.IsResourceRequest:
		return ""
	case info.Name != "" || info.Verb == "create":
		return "resource"
	case info.Namespace != "":
		return "namespace"
	}
	return "cluster"
}

// verbOf is the verb in the form of metrics.
func verbOf(info *request.RequestInfo) string {
	switch info.Verb {
	case "create":
		return "POST"
	case "update":
		return "PUT"
	case "get", "list", "watch", "patch", "delete", "deletecollection", "post", "put", "proxy", "head", "options":
		return strings.ToUpper(info.Verb)
	}
	return "other"
}

// recorder notes the status and the size of a response.
type recorder struct {
	http.ResponseWriter
	code int
	size int64
}

func (r *recorder) status() int {
	if r.code == 0 {
		return http.StatusOK
	}
	return r.code
}

func (r *recorder) WriteHeader(code int) {
	if r.code == 0 && code >= 200 || code == http.StatusSwitchingProtocols {
		r.code = code
	}
	r.ResponseWriter.WriteHeader(code)
}

func (r *recorder) Write(p []byte) (int, error) {
	n, err := r.ResponseWriter.Write(p)
	r.size += int64(n)
	return n, err
}

// Flush implements http.Flusher.
func (r *recorder) Flush() { _ = http.NewResponseController(r.ResponseWriter).Flush() }

// Hijack implements http.Hijacker, for connections that are upgraded.
func (r *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	r.code = http.StatusSwitchingProtocols
	return http.NewResponseController(r.ResponseWriter).Hijack()
}

// Unwrap lets http.ResponseController through.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
