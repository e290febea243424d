package endpointslicemirroring

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	v1 "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/controllers/runner"
)

// TestMetrics: gauges add up over Endpoints, and forget those that aren't mirrored any more.
func TestMetrics(t *testing.T) {
	m := newMetrics(runner.Env{Registry: prometheus.NewRegistry()})
	slice := func(name string, addresses ...string) *discovery.EndpointSlice {
		s := &discovery.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: name}}
		for _, a := range addresses {
			s.Endpoints = append(s.Endpoints, discovery.Endpoint{Addresses: []string{a}})
		}
		return s
	}
	expect := func(desired, have float64) {
		t.Helper()
		if d, h := testutil.ToFloat64(m.desired), testutil.ToFloat64(m.have); d != desired || h != have {
			t.Errorf("%v endpoints in %v slices, want %v in %v", d, h, desired, have)
		}
	}
	a := slice("a", "1", "2")
	m.wrote("ns/one", &v1.Endpoints{}, nil, plan{create: []*discovery.EndpointSlice{a}})
	expect(2, 1)
	m.wrote("ns/two", &v1.Endpoints{}, []*discovery.EndpointSlice{slice("b", "3"), slice("c", "4")},
		plan{update: []*discovery.EndpointSlice{slice("b", "5", "6")},
			delete: []*discovery.EndpointSlice{slice("c")}, invalid: 1})
	expect(4, 2)
	m.wrote("ns/one", nil, []*discovery.EndpointSlice{a}, plan{delete: []*discovery.EndpointSlice{a}})
	expect(2, 1)
	if got := testutil.ToFloat64(m.operations.WithLabelValues("delete")); got != 2 {
		t.Errorf("%v deletions", got)
	}
}
