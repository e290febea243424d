package endpointslice

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/controllers/runner"
)

// metrics are those of upstream's controller. They may be used at the same time.
type metrics struct {
	added, removed, changed *prometheus.HistogramVec
	desired, have, ideal    *prometheus.GaugeVec
	distributions           *prometheus.GaugeVec
	operations, syncs       *prometheus.CounterVec

	mu       sync.Mutex
	services map[string]tally // by key
}

// tally is what one Service has a part of in the gauges.
type tally struct {
	endpoints, have, ideal int
	distribution           string // "" for none
}

func newMetrics(env runner.Env) *metrics {
	const subsystem = "endpoint_slice_controller"
	buckets := prometheus.ExponentialBuckets(2, 2, 15)
	return &metrics{
		services: map[string]tally{},
		added:    env.Histogram(subsystem, "endpoints_added_per_sync", "Endpoints added for a Service.", buckets),
		removed:  env.Histogram(subsystem, "endpoints_removed_per_sync", "Endpoints removed for a Service.", buckets),
		changed: env.Histogram(subsystem, "endpointslices_changed_per_sync", "EndpointSlices written for a Service.",
			nil, "topology", "traffic_distribution"),
		desired: env.Gauge(subsystem, "endpoints_desired", "Endpoints that Services have."),
		have:    env.Gauge(subsystem, "num_endpoint_slices", "EndpointSlices that Services have."),
		ideal: env.Gauge(subsystem, "desired_endpoint_slices",
			"EndpointSlices that Services would have if all were full."),
		distributions: env.Gauge(subsystem, "services_count_by_traffic_distribution",
			"Services by their traffic distribution.", "traffic_distribution"),
		operations: env.Counter(subsystem, "changes", "EndpointSlices written.", "operation"),
		syncs:      env.Counter(subsystem, "syncs", "Services looked at, by outcome: success, stale or error.", "result"),
	}
}

// wrote counts the slices of a plan that was carried out.
func (m *metrics) wrote(key string, o observed, p plan) {
	for operation, slices := range map[string][]*discovery.EndpointSlice{
		"create": p.create, "update": p.update, "delete": p.delete,
	} {
		m.operations.WithLabelValues(operation).Add(float64(len(slices)))
	}
	before, after := addresses(o.slices), addresses(result(o, p))
	added, removed := 0, 0
	for address := range after {
		if !before[address] {
			added++
		}
	}
	for address := range before {
		if !after[address] {
			removed++
		}
	}
	m.added.WithLabelValues().Observe(float64(added))
	m.removed.WithLabelValues().Observe(float64(removed))
	distribution := ptr.Deref(o.service.Spec.TrafficDistribution, "")
	if asksForHints(o.service) {
		distribution = "" // has no effect
	}
	m.changed.WithLabelValues(mode(o.service), distribution).
		Observe(float64(len(p.create) + len(p.update) + len(p.delete)))
	t := tally{endpoints: len(after), have: len(result(o, p)), distribution: distribution}
	t.ideal = max((t.endpoints+o.limit-1)/o.limit, 1)
	m.set(key, &t)
}

// set replaces the tally of a Service; nil for one that is gone.
func (m *metrics) set(key string, t *tally) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.services, key)
	if t != nil {
		m.services[key] = *t
	}
	var sum tally
	distributions := map[string]int{}
	for _, s := range m.services {
		sum.endpoints += s.endpoints
		sum.have += s.have
		sum.ideal += s.ideal
		if s.distribution != "" {
			distributions[s.distribution]++
		}
	}
	m.desired.WithLabelValues().Set(float64(sum.endpoints))
	m.have.WithLabelValues().Set(float64(sum.have))
	m.ideal.WithLabelValues().Set(float64(sum.ideal))
	m.distributions.Reset()
	for name, n := range distributions {
		m.distributions.WithLabelValues(name).Set(float64(n))
	}
}

// mode is how the Service's hints are asked for by annotation.
func mode(service *v1.Service) string {
	if asksForHints(service) {
		return "Auto"
	}
	return "Disabled"
}

// result returns the slices that are there once p was carried out.
func result(o observed, p plan) []*discovery.EndpointSlice {
	now := map[string]*discovery.EndpointSlice{}
	for _, slice := range o.slices {
		now[slice.Name] = slice
	}
	for _, slice := range p.update {
		now[slice.Name] = slice
	}
	for _, slice := range p.delete {
		delete(now, slice.Name)
	}
	var out []*discovery.EndpointSlice
	for _, slice := range now {
		out = append(out, slice)
	}
	return append(out, p.create...) // they have no names yet
}

func addresses(slices []*discovery.EndpointSlice) map[string]bool {
	out := map[string]bool{}
	for _, slice := range slices {
		for _, endpoint := range slice.Endpoints {
			for _, address := range endpoint.Addresses {
				out[address] = true
			}
		}
	}
	return out
}
