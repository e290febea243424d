package peers

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// metrics have upstream's names. Discovery is counted as a request for no resource.
type metrics struct {
	passed, failed, unseen *prometheus.CounterVec
}

func newMetrics() metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	return metrics{
		passed: counter("apiserver_rerouted_request_total",
			"Requests that another API server was asked in the place of this one.", "code", "group", "version",
			"resource"),
		failed: counter("apiserver_peer_proxy_errors_total", "Requests that no other API server could be asked.",
			"type", "group", "version", "resource"),
		unseen: counter("apiserver_peer_discovery_sync_errors_total",
			"How often another API server could not be asked what it serves.", "type"),
	}
}

func (m metrics) passedOn(code int, r schema.GroupVersionResource) {
	m.passed.WithLabelValues(strconv.Itoa(code), r.Group, r.Version, r.Resource).Inc()
}

func (m metrics) notPassed(why string, r schema.GroupVersionResource) {
	m.failed.WithLabelValues(why, r.Group, r.Version, r.Resource).Inc()
}
