package server

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"quintet.dev/quintet/internal/exposition"
)

// TestExposition: what is disabled or hidden is left out, labels keep only values that they may, and what then is the
// same is added up.
func TestExposition(t *testing.T) {
	registry, library := prometheus.NewRegistry(), prometheus.NewRegistry()
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "requests", Help: "Ours."},
		[]string{"path", "code"})
	times := prometheus.NewHistogramVec(
		prometheus.HistogramOpts{Name: "times", Help: "Ours.", Buckets: []float64{1, 2}}, []string{"path"})
	theirs := prometheus.NewCounter(prometheus.CounterOpts{Name: "requests", Help: "Theirs."})
	old := prometheus.NewCounter(prometheus.CounterOpts{Name: "old", Help: "(Deprecated since 1.35.0) Old."})
	older := prometheus.NewCounter(prometheus.CounterOpts{Name: "recent", Help: "(Deprecated since 1.36.0) Recent."})
	secret := prometheus.NewCounter(prometheus.CounterOpts{Name: "secret", Help: "Off."})
	registry.MustRegister(requests, times, old, older, secret)
	library.MustRegister(theirs)
	for i, path := range []string{"/a", "/b", "/c"} {
		requests.WithLabelValues(path, "200").Add(float64(i + 1))
		times.WithLabelValues(path).Observe(float64(i) + 0.5)
	}
	labels, err := exposition.ParseLabels(map[string]string{"requests,path": "/a", "times,path": "/a"})
	if err != nil {
		t.Fatal(err)
	}
	for hidden, extra := range map[bool][]string{false: nil, true: {"old 0"}} {
		m := newMetrics(&Config{Registry: prometheus.NewRegistry()})
		w := httptest.NewRecorder()
		m.handler(registry, []prometheus.Gatherer{library},
			Exposition{Exposition: exposition.Exposition{Disabled: []string{"secret"}, Labels: labels, Minor: 36,
				Hidden: hidden}}).
			ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		lines := map[string]bool{}
		for line := range strings.Lines(w.Body.String()) {
			lines[strings.TrimSpace(line)] = true
		}
		for _, want := range append(extra, `requests{code="200",path="/a"} 1`,
			`requests{code="200",path="unexpected"} 5`, "# HELP requests [ALPHA] Ours.", "recent 0",
			"cardinality_enforcement_unexpected_categorizations_total 7",
			`times_bucket{path="/a",le="1"} 1`, `times_bucket{path="unexpected",le="2"} 1`,
			`times_count{path="unexpected"} 2`, `times_sum{path="unexpected"} 4`) {
			if !lines[want] {
				t.Errorf("hidden %v: no %q in %s", hidden, want, w.Body)
			}
		}
		if lines["old 0"] != hidden || lines["secret 0"] {
			t.Errorf("hidden %v: too much is shown: %s", hidden, w.Body)
		}
	}
	for _, bad := range []string{"requests", ",path", "requests,", "a,b,c"} {
		if _, err := exposition.ParseLabels(map[string]string{bad: "x"}); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}
