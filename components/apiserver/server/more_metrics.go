package server

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// The values of label request_kind.
const (
	kindMutating = "mutating"
	kindReadOnly = "readOnly"
)

func (m *metrics) addMore() {
	m.sli = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "apiserver_request_sli_duration_seconds",
		Help:    "Time from the first byte of a request to the end of its response, without what webhooks took and the wait in a queue.",
		Buckets: []float64{0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60},
	}, []string{"verb", "group", "version", "resource", "subresource", "scope", "component"})
	m.bodies = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "apiserver_request_body_size_bytes",
		Help:    "Bytes of request bodies.",
		Buckets: prometheus.LinearBuckets(50_000, 100_000, 31),
	}, []string{"group", "resource", "verb"})
	m.handshakes.failed = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "apiserver_tls_handshake_errors_total",
		Help: "TLS handshakes that failed.",
	})
}

// handshakes takes the log of an http.Server, of which only failed handshakes are counted: they are the client's affair.
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
	if t, ok := request.LatencyTrackersFrom(r.Context()); ok {
		took -= t.MutatingWebhookTracker.GetLatency() + t.ValidatingWebhookTracker.GetLatency() + t.APFQueueWaitTracker.GetLatency()
	}
	return took
}

// counted are the paths that are no resources and of which requests are counted, as of upstream.
func counted(path string) bool {
	for _, p := range []string{"/livez", "/readyz", "/healthz", "/openapi/v2", "/openapi/v3"} {
		if path == p || strings.HasPrefix(path, p+"/") {
			return true
		}
	}
	return false
}

// countPath counts and times requests for what is no resource.
func (s *Server) countPath(w http.ResponseWriter, r *http.Request, next http.Handler) {
	path := r.URL.Path
	if !counted(path) {
		next.ServeHTTP(w, r)
		return
	}
	if strings.HasPrefix(path, "/openapi/v3") {
		path = "openapi/v3" // however many there are
	}
	start, record := time.Now(), &recorder{ResponseWriter: w}
	defer func() {
		took := time.Since(start).Seconds()
		s.metrics.requests.WithLabelValues(r.Method, "", "", "", "", path, "", "", strconv.Itoa(record.status())).Inc()
		s.metrics.duration.WithLabelValues(r.Method, "", "", "", "", path, "", "").Observe(took)
		s.metrics.sli.WithLabelValues(r.Method, "", "", "", path, "", "").Observe(took)
		if r.Method == http.MethodGet {
			s.metrics.size.WithLabelValues(r.Method, "", "", "", path, "", "").Observe(float64(record.size))
		}
	}()
	next.ServeHTTP(record, r)
}
