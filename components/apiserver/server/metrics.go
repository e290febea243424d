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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// metrics carry upstream's names
// (https://kubernetes.io/docs/reference/instrumentation/metrics/), as dashboards expect.
type metrics struct {
	requests    *prometheus.CounterVec
	series      memo[served, *series] // of the vectors below
	duration    *prometheus.HistogramVec
	longRunning *prometheus.GaugeVec
	size        *prometheus.HistogramVec
	sli         *prometheus.HistogramVec
	bodies      *prometheus.HistogramVec
	validation  *prometheus.HistogramVec
	validated   memo[string, prometheus.Observer] // of validation
	handshakes  handshakes
	access      *accessMetrics
	own         *prometheus.CounterVec
	started     time.Time // the process, as near as it matters
	resets      resets
	// serves and defined are those of Config.
	serves, defined func(info *request.RequestInfo) bool
}

func newMetrics(config *Config) *metrics {
	m := &metrics{
		started: time.Now(), serves: config.Serves, defined: config.Defined,
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_request_total",
			Help: "Requests served, by verb, resource and response code.",
		}, []string{"verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "apiserver_request_duration_seconds",
			Help: "Time from the first byte of a request to the end of its response.",
			Buckets: []float64{0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20,
				30, 45, 60},
		}, []string{"verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component"}),
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
	config.Registry.MustRegister(m.requests, m.duration, m.longRunning, m.size, m.sli, m.bodies, m.validation, m.own,
		m.handshakes.failed)
	m.access = newAccessMetrics(config.Registry)
	return m
}

// component is what label component says of requests for resources.
const component = "apiserver"

// counts tells whether requests are counted by the resource that they name.
func (m *metrics) counts(info *request.RequestInfo) bool {
	return info.IsResourceRequest && (m.serves == nil || m.serves(info))
}

// withMetrics counts and times requests that are served, and counts those that are dropped as there are too many.
func (m *metrics) withMetrics(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info := infoOf(r)
		if !info.IsResourceRequest {
			m.countPath(w, r, next)
			return
		}
		if !m.counts(info) {
			next.ServeHTTP(w, r)
			return
		}
		a, of := requestStateOf(r), servedOf(r, info)
		counted := m.routed(of, info)
		start, ended := time.Now(), false
		record := &recorder{ResponseWriter: w}
		record.body.follow(r, of, info)
		defer m.noteEnd(r, a, record, counted.verb, of.group, of.resource, of.subresource)
		defer func() {
			switch {
			case a.got == reached && (ended || a.cut) && m.routes(r, info, record.status()):
				// else it panicked, or there was nothing to serve
				m.noteServed(r, counted, record, time.Since(start))
			case a.got == queued && record.code == http.StatusTooManyRequests:
				m.requests.WithLabelValues(of.verb, of.dryRun, of.group, of.version, of.resource,
					of.subresource, of.scope, component, "429").Inc()
			}
		}()
		next.ServeHTTP(record, r)
		ended = true
	})
}

// noteServed counts a request for a resource.
func (m *metrics) noteServed(r *http.Request, of served, record *recorder, took time.Duration) {
	series := m.series.get(of, m.newSeries)
	series.requests.get(record.status(), series.counter).Inc()
	series.duration.Observe(took.Seconds())
	m.noteValidation(r)
	if series.sli != nil {
		series.sli.Observe(ours(r, took).Seconds())
	}
	m.noteBody(infoOf(r), &record.body, record.status())
	if series.size != nil {
		series.size.Observe(float64(record.size))
	}
}

// countDropped notes that a request gets as far as to where there may be too many, and counts those that are dropped
// there and are for no resource.
func (m *metrics) countDropped(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := requestStateOf(r)
		a.got = queued
		if a.info.IsResourceRequest {
			next.ServeHTTP(w, r)
			return
		}
		record := &recorder{ResponseWriter: w}
		next.ServeHTTP(record, r)
		if a.got == queued && record.code == http.StatusTooManyRequests {
			m.requests.WithLabelValues(methodOf(r), dryRunOf(r), "", "", "", "", "", component, "429").Inc()
		}
	})
}

// countReached notes that a request is served, and tells how many there are that take long.
func (m *metrics) countReached(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := requestStateOf(r)
		a.got = reached
		if LongRunning(r, a.info) && m.counts(a.info) {
			of := servedOf(r, a.info)
			gauge := m.longRunning.WithLabelValues(of.verb, of.group, of.version, of.resource, of.subresource,
				of.scope, component)
			gauge.Inc()
			defer gauge.Dec()
		}
		next.ServeHTTP(w, r)
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

// verbOf is the verb of a request for a resource in the form of metrics.
func verbOf(r *http.Request, info *request.RequestInfo) string {
	switch info.Subresource {
	case "attach", "exec", "log", "portforward", "proxy":
		return "CONNECT"
	}
	switch info.Verb {
	case "create":
		return "POST"
	case "update":
		return "PUT"
	case "patch":
		if r.Header.Get("Content-Type") == string(types.ApplyPatchType) {
			return "APPLY"
		}
		return "PATCH"
	case "delete", "deletecollection":
		return "DELETE"
	case "list":
		if info.Name != "" { // by a selector
			return "GET"
		}
		return "LIST"
	case "get", "watch":
		return strings.ToUpper(info.Verb)
	}
	return "other"
}

// recorder notes the status and the size of a response.
type recorder struct {
	http.ResponseWriter
	code  int
	size  int64
	taken bool // the connection was: what is answered on it is for others to know
	body  body
}

func (r *recorder) status() int {
	if r.code == 0 && !r.taken {
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
	r.taken = true
	return http.NewResponseController(r.ResponseWriter).Hijack()
}

// Unwrap lets http.ResponseController through.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
