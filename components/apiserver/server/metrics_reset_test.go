package server

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// TestReset: DELETE resets counters, where that is allowed.
func TestReset(t *testing.T) {
	for allowed, want := range map[bool]map[string]bool{
		true: {`sent{to="a"} 1`: true, `sent{to="b"}`: false, "lost 0": true, `open{to="a"} 7`: true,
			`took_bucket{to="a",le="2"} 1`: true, `took_sum{to="a"} 0.5`: true, `took_count{to="a"} 1`: true,
			"summed_count 1": true, "summed_sum 4": true, "go_things 3": true},
		false: {`sent{to="a"} 6`: true, `sent{to="b"} 2`: true, "lost 1": true, `took_count{to="a"} 2`: true},
	} {
		registry := prometheus.NewRegistry()
		sent := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sent"}, []string{"to"})
		lost := prometheus.NewCounter(prometheus.CounterOpts{Name: "lost"})
		ran := prometheus.NewCounter(prometheus.CounterOpts{Name: "go_things"})
		open := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "open"}, []string{"to"})
		took := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "took", Buckets: []float64{1, 2}},
			[]string{"to"})
		summed := prometheus.NewSummary(prometheus.SummaryOpts{Name: "summed"})
		registry.MustRegister(sent, lost, ran, open, took, summed)
		sent.WithLabelValues("a").Add(5)
		sent.WithLabelValues("b").Add(2)
		lost.Inc()
		ran.Add(3)
		open.WithLabelValues("a").Set(7)
		took.WithLabelValues("a").Observe(1.5)
		summed.Observe(3)

		h := newMetrics(&Config{Registry: prometheus.NewRegistry()}).handler(registry, nil, Exposition{Resets: allowed})
		serve := func(method string) string {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(method, "/metrics", nil))
			return w.Body.String()
		}
		if got := serve(http.MethodDelete); (got == "metrics reset\n") != allowed {
			t.Errorf("allowed %v: got %s", allowed, got)
		}
		sent.WithLabelValues("a").Inc()
		took.WithLabelValues("a").Observe(0.5)
		summed.Observe(4)
		text := serve(http.MethodGet)
		for line, shown := range want {
			if strings.Contains(text, line) != shown {
				t.Errorf("allowed %v: %s: want %v", allowed, line, shown)
			}
		}
	}
}

// TestStages: help begins with how far a metric has come.
func TestStages(t *testing.T) {
	s := serverOf(t, ok)
	ask(s, http.MethodGet, "/api/v1/namespaces/x/pods/p")
	text := ask(s, http.MethodGet, "/metrics").Body.String()
	for _, line := range []string{"# HELP apiserver_request_total [STABLE] ",
		"# HELP apiserver_request_sli_duration_seconds [ALPHA] ", "# HELP go_goroutines Number"} {
		if !strings.Contains(text, line) {
			t.Errorf("no %s", line)
		}
	}
}
