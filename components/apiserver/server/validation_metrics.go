package server

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/munnerz/goautoneg"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apiserver/pkg/authentication/user"
	endpointmetrics "k8s.io/apiserver/pkg/endpoints/metrics"
	"k8s.io/apiserver/pkg/endpoints/request"

	"quintet.dev/quintet/internal/zpages"
)

func (m *metrics) addMore() {
	m.sli = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "apiserver_request_sli_duration_seconds",
		Help: "Time from the first byte of a request to the end of its response, without what webhooks took and the " +
			"wait in a queue.",
		Buckets: []float64{0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60},
	}, []string{"verb", "group", "version", "resource", "subresource", "scope", "component"})
	m.bodies = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "apiserver_request_body_size_bytes",
		Help:    "Bytes of request bodies.",
		Buckets: prometheus.LinearBuckets(50_000, 100_000, 31),
	}, []string{"group", "resource", "verb"})
	m.validation = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "field_validation_request_duration_seconds",
		Help: "Which ways of validating fields were asked for. As of upstream it has a series for each, in which no " +
			"time is ever told.",
		Buckets: []float64{0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60},
	}, []string{"field_validation"})
	m.own = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "apiserver_selfrequest_total",
		Help: "Requests of the server's own parts.",
	}, []string{"verb", "group", "resource", "subresource"})
	m.handshakes.failed = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "apiserver_tls_handshake_errors_total",
		Help: "TLS handshakes that failed.",
	})
}

// noteValidation lets there be a series of the way in which a request wants its fields validated.
func (m *metrics) noteValidation(r *http.Request) {
	m.validated.get(validationOf(r), func(way string) prometheus.Observer { return m.validation.WithLabelValues(way) })
}

// handshakes takes the log of an http.Server, of which only failed handshakes are counted: they are the client's
// affair.
type handshakes struct{ failed prometheus.Counter }

// Write implements io.Writer.
func (h *handshakes) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("TLS handshake error from")) {
		h.failed.Inc()
	}
	return len(line), nil
}

// ours is what a request took without webhooks and queues.
func ours(r *http.Request, took time.Duration) time.Duration {
	if t := requestStateOf(r).trackers.Load(); t != nil {
		took -= t.MutatingWebhookTracker.GetLatency() + t.ValidatingWebhookTracker.GetLatency() +
			t.APFQueueWaitTracker.GetLatency()
	}
	return took
}

// noteEnd counts a request that the server ended for its own good, or that comes from itself. It is deferred, as it
// looks at what panics.
func (m *metrics) noteEnd(r *http.Request, a *requestState, record *recorder, verb, group, resource,
	subresource string) {
	fate := "ok"
	if p := recover(); p != nil {
		fate = "panic"
		defer panic(p)
	}
	ctx := r.Context()
	if who, ok := request.UserFrom(ctx); ok && who.GetName() == user.APIServerUser && a.got == reached {
		m.own.WithLabelValues(verb, group, resource, subresource).Inc()
	}
	if record.code == http.StatusGatewayTimeout && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		endpointmetrics.RecordRequestTermination(r, a.info, endpointmetrics.APIServerComponent, record.code)
		endpointmetrics.RecordRequestPostTimeout(endpointmetrics.PostTimeoutSourceTimeoutHandler, fate)
	}
}

// countedPath is by what requests for what is no resource are counted, as of upstream; most are not.
type countedPath struct{ resource, name, component string }

func pathOf(r *http.Request) (of countedPath, ok bool) {
	switch at := r.URL.Path; at {
	case "/livez", "/readyz", "/healthz":
		return countedPath{name: at}, true
	case "/openapi/v3":
		return countedPath{name: "openapi/v3"}, true
	case "/api", "/apis":
		return countedPath{name: at[1:], component: component},
			strings.Contains(r.Header.Get("Accept"), "as=APIGroupDiscoveryList")
	case zpages.StatusPath, zpages.FlagsPath:
		return countedPath{resource: at[1:], component: component}, true
	default:
		return countedPath{name: "openapi/v3/"}, strings.HasPrefix(at, "/openapi/v3/") // however many there are
	}
}

// pageVersion is the group and the version of a page that tells of the program as an object, which not all are that
// clients get.
func (p countedPath) pageVersion(r *http.Request, record *recorder) (group, version string) {
	if p.resource == "" || record.status() != http.StatusOK ||
		strings.HasPrefix(record.Header().Get("Content-Type"), "text/plain") {
		return "", ""
	}
	form := record.Header().Get("Content-Type")
	for _, clause := range goautoneg.ParseAccept(r.Header.Get("Accept")) {
		asked := clause.SubType == "*" || strings.HasPrefix(form, clause.Type+"/"+clause.SubType)
		if asked && clause.Params["as"] != "" {
			return clause.Params["g"], clause.Params["v"]
		}
	}
	return "", ""
}

// methodOf is the method in the form of metrics. Clients could make up any number of others, and be it without a name
// of their own.
func methodOf(r *http.Request) string {
	switch method := strings.ToUpper(r.Method); method {
	case http.MethodHead:
		return http.MethodGet
	case http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodConnect:
		return method
	}
	return "other"
}

// countPath counts and times requests for what is no resource.
func (m *metrics) countPath(w http.ResponseWriter, r *http.Request, next http.Handler) {
	of, ok := pathOf(r)
	if !ok {
		next.ServeHTTP(w, r)
		return
	}
	a, start, record, method := requestStateOf(r), time.Now(), &recorder{ResponseWriter: w}, methodOf(r)
	defer m.noteEnd(r, a, record, method, "", of.resource, of.name)
	defer func() {
		if a.got != reached {
			return
		}
		took := time.Since(start).Seconds()
		group, version := of.pageVersion(r, record)
		m.requests.WithLabelValues(method, "", group, version, of.resource, of.name, "", of.component,
			strconv.Itoa(record.status())).Inc()
		m.duration.WithLabelValues(method, "", group, version, of.resource, of.name, "",
			of.component).Observe(took)
		m.sli.WithLabelValues(method, group, version, of.resource, of.name, "", of.component).Observe(took)
		m.noteValidation(r)
		if r.Method == http.MethodGet || of.resource != "" {
			m.size.WithLabelValues(method, group, version, of.resource, of.name, "",
				of.component).Observe(float64(record.size))
		}
	}()
	next.ServeHTTP(record, r)
}
