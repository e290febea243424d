package podcertificates

import "github.com/prometheus/client_golang/prometheus"

// states tells the states of certificates under upstream's name.
type states struct {
	manager *Manager
	desc    *prometheus.Desc
}

// Metrics collects how many certificates of a manager's pods are in which state.
func Metrics(m *Manager) prometheus.Collector {
	return states{m, prometheus.NewDesc("kubelet_podcertificate_states",
		"Number of pod certificate projected volume sources, by signer_name and state.", []string{"signer_name", "state"},
		nil)}
}

// Describe implements prometheus.Collector.
func (s states) Describe(out chan<- *prometheus.Desc) { out <- s.desc }

// Collect implements prometheus.Collector.
func (s states) Collect(out chan<- prometheus.Metric) {
	for state, n := range s.manager.States() {
		out <- prometheus.MustNewConstMetric(s.desc, prometheus.GaugeValue, float64(n), state.Signer, state.State)
	}
}
