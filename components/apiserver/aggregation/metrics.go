package aggregation

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apiserver/pkg/util/x509metrics"
	basemetrics "k8s.io/component-base/metrics"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
)

// metrics have upstream's names, as alerts go by them.
type metrics struct {
	unavailable *prometheus.Desc
	marked      *prometheus.CounterVec
	// certificates counts the bad ones that a transport meets, in a registry of the library's kind.
	certificates func(http.RoundTripper) http.RoundTripper
}

func newMetrics(library basemetrics.KubeRegistry) metrics {
	return metrics{
		certificates: certificates(library),
		unavailable: prometheus.NewDesc("aggregator_unavailable_apiservice",
			"Whether an APIService is marked as unavailable, by its name.", []string{"name"}, nil),
		marked: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aggregator_unavailable_apiservice_total",
			Help: "How often an APIService that was available was marked as unavailable, by its name and the reason.",
		}, []string{"name", "reason"}),
	}
}

// certificates wraps transports so that those certificates are counted that clients will not take for much longer.
func certificates(library basemetrics.KubeRegistry) func(http.RoundTripper) http.RoundTripper {
	counter := func(name, help string) *basemetrics.Counter {
		c := basemetrics.NewCounter(
			&basemetrics.CounterOpts{Name: "apiserver_kube_aggregator_x509_" + name, Help: help})
		library.MustRegister(c)
		return c
	}
	return x509metrics.NewDeprecatedCertificateRoundTripperWrapperConstructor(
		counter("missing_san_total",
			"Answers of extension servers whose certificate doesn't name their host as an alternative of the subject."),
		counter("insecure_sha1_total", "Answers of extension servers whose certificate is signed with SHA-1."),
	)
}

var _ prometheus.Collector = (*Aggregator)(nil)

// Describe implements prometheus.Collector.
func (a *Aggregator) Describe(out chan<- *prometheus.Desc) {
	out <- a.metrics.unavailable
	a.metrics.marked.Describe(out)
}

// Collect implements prometheus.Collector.
func (a *Aggregator) Collect(out chan<- prometheus.Metric) {
	a.metrics.marked.Collect(out)
	a.mu.Lock()
	all, err := a.known()
	a.mu.Unlock()
	if err != nil {
		return // there are none that could be unavailable
	}
	for _, s := range all {
		value := 1.0
		if helper.IsAPIServiceConditionTrue(s, apiregistrationv1.Available) {
			value = 0
		}
		out <- prometheus.MustNewConstMetric(a.metrics.unavailable, prometheus.GaugeValue, value, s.Name)
	}
}
