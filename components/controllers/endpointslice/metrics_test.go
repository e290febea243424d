package endpointslice

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	discovery "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/controllers/runner"
)

// TestMetrics: gauges add up over Services, and forget one that is gone.
func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := newMetrics(runner.Env{Registry: registry})
	slice := func(name string, addresses ...string) *discovery.EndpointSlice {
		s := &discovery.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: name}}
		for _, a := range addresses {
			s.Endpoints = append(s.Endpoints, discovery.Endpoint{Addresses: []string{a}})
		}
		return s
	}
	o := observed{service: service(), limit: 2, slices: []*discovery.EndpointSlice{slice("a", "1"), slice("b", "2")}}
	m.wrote("ns/one", o, plan{create: []*discovery.EndpointSlice{slice("", "3")},
		update: []*discovery.EndpointSlice{slice("a", "4")}, delete: []*discovery.EndpointSlice{o.slices[1]}})
	m.wrote("ns/two", observed{service: service(), limit: 2}, plan{create: []*discovery.EndpointSlice{slice("")}})
	read := func() map[string]float64 {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]float64{}
		for _, family := range families {
			for _, metric := range family.Metric {
				switch {
				case metric.Gauge != nil:
					out[family.GetName()] += metric.Gauge.GetValue()
				case metric.Counter != nil:
					out[family.GetName()] += metric.Counter.GetValue()
				case metric.Histogram != nil:
					out[family.GetName()] += metric.Histogram.GetSampleSum()
				}
			}
		}
		return out
	}
	expect := func(want map[string]float64) {
		t.Helper()
		got := read()
		for name, value := range want {
			if got["endpoint_slice_controller_"+name] != value {
				t.Errorf("%s is %v, want %v", name, got["endpoint_slice_controller_"+name], value)
			}
		}
	}
	expect(map[string]float64{"changes": 4, "endpoints_added_per_sync": 2, "endpoints_removed_per_sync": 2,
		"endpoints_desired": 2, "num_endpoint_slices": 3, "desired_endpoint_slices": 2,
		"endpointslices_changed_per_sync": 4})
	m.set("ns/one", nil)
	expect(map[string]float64{"endpoints_desired": 0, "num_endpoint_slices": 1, "desired_endpoint_slices": 1})
}
