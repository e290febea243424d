package endpointslicemirroring

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"quintet.dev/quintet/components/controllers/runner"
)

// metrics are those of upstream's controller. They may be used at the same time.
type metrics struct {
	added, updated, removed, skipped, took *prometheus.HistogramVec
	desired, have, ideal                   *prometheus.GaugeVec
	operations                             *prometheus.CounterVec

	mu      sync.Mutex
	tallies map[string]tally // by key
}

// tally is what one Endpoints has a part of in the gauges.
type tally struct{ endpoints, slices int }

func newMetrics(env runner.Env) *metrics {
	const subsystem = "endpoint_slice_mirroring_controller"
	counts := func(name, help string) *prometheus.HistogramVec {
		return env.Histogram(subsystem, name, help, prometheus.ExponentialBuckets(2, 2, 15))
	}
	return &metrics{
		tallies: map[string]tally{},
		added:   counts("endpoints_added_per_sync", "Endpoints that were added for one Endpoints object."),
		updated: counts("endpoints_updated_per_sync", "Endpoints that were changed for one Endpoints object."),
		removed: counts("endpoints_removed_per_sync", "Endpoints that were removed for one Endpoints object."),
		skipped: counts("addresses_skipped_per_sync",
			"Addresses of one Endpoints object that were left out, as they are none or too many."),
		took: env.Histogram(subsystem, "endpoints_sync_duration", "Seconds that one Endpoints object took.",
			prometheus.ExponentialBuckets(0.001, 2, 15)),
		desired: env.Gauge(subsystem, "endpoints_desired", "Endpoints that are mirrored."),
		have:    env.Gauge(subsystem, "num_endpoint_slices", "EndpointSlices that mirror Endpoints."),
		ideal: env.Gauge(subsystem, "desired_endpoint_slices",
			"EndpointSlices that would mirror Endpoints if all were full."),
		operations: env.Counter(subsystem, "changes", "EndpointSlices written.", "operation"),
	}
}

// wrote counts a plan that was carried out over the slices that there were. Those of no endpoints are forgotten.
func (m *metrics) wrote(key string, endpoints *v1.Endpoints, current []*discovery.EndpointSlice, p plan) {
	for operation, slices := range map[string][]*discovery.EndpointSlice{
		"create": p.create, "update": p.update, "delete": p.delete,
	} {
		m.operations.WithLabelValues(operation).Add(float64(len(slices)))
	}
	after := map[string]*discovery.EndpointSlice{}
	for _, slice := range current {
		after[slice.Name] = slice
	}
	for _, slice := range p.update {
		after[slice.Name] = slice
	}
	for _, slice := range p.delete {
		delete(after, slice.Name)
	}
	left := p.create
	for _, slice := range after {
		left = append(left[:len(left):len(left)], slice)
	}
	before, now := byAddress(current), byAddress(left)
	added, updated, removed := 0, 0, 0
	for address, endpoint := range now {
		if old, was := before[address]; !was {
			added++
		} else if !equality.Semantic.DeepEqual(old, endpoint) {
			updated++
		}
	}
	for address := range before {
		if _, still := now[address]; !still {
			removed++
		}
	}
	for histogram, count := range map[*prometheus.HistogramVec]int{m.added: added, m.updated: updated,
		m.removed: removed, m.skipped: p.invalid + p.dropped} {
		histogram.WithLabelValues().Observe(float64(count))
	}
	if endpoints == nil {
		m.set(key, nil)
		return
	}
	m.set(key, &tally{endpoints: len(now), slices: len(left)})
}

// set replaces what one Endpoints has a part of; nil for one that isn't mirrored.
func (m *metrics) set(key string, t *tally) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.tallies, key)
	if t != nil {
		m.tallies[key] = *t
	}
	var sum tally
	for _, one := range m.tallies {
		sum.endpoints += one.endpoints
		sum.slices += one.slices
	}
	m.desired.WithLabelValues().Set(float64(sum.endpoints))
	m.have.WithLabelValues().Set(float64(sum.slices))
	m.ideal.WithLabelValues().Set(float64(sum.slices)) // none is split
}

func byAddress(slices []*discovery.EndpointSlice) map[string]discovery.Endpoint {
	out := map[string]discovery.Endpoint{}
	for _, slice := range slices {
		for _, endpoint := range slice.Endpoints {
			for _, address := range endpoint.Addresses {
				out[address] = endpoint
			}
		}
	}
	return out
}
