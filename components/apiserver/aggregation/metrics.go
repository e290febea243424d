package aggregation

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
)

// metrics have upstream's names, as alerts go by them.
type metrics struct {
	unavailable *prometheus.Desc
	marked      *prometheus.CounterVec
}

func newMetrics() metrics {
	return metrics{
		unavailable: prometheus.NewDesc("aggregator_unavailable_apiservice",
			"Whether an APIService is marked as unavailable, by its name.", []string{"name"}, nil),
		marked: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aggregator_unavailable_apiservice_total", Help: "How often an APIService that was available was marked as unavailable, by its name and the reason.",
		}, []string{"name", "reason"}),
	}
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
	all, err := a.stored(context.Background()) // from memory
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
