package bench

import (
	"maps"
	"testing"

	"github.com/google/pprof/profile"
)

// The largest cluster is what was asked for, or fits into half of the machine's memory.
func TestLargestCluster(t *testing.T) {
	if n, err := (Options{Nodes: 16, PodsPerNode: 30}).largest(); n != 16 || err != nil {
		t.Errorf("%d nodes, %v", n, err)
	}
	few, err := Options{PodsPerNode: 30}.largest()
	many, _ := Options{PodsPerNode: 1}.largest()
	if err != nil || few < leastNodes || many > mostNodes || few > many {
		t.Errorf("%d nodes with 30 pods each, %d with one; %v", few, many, err)
	}
}

// Growth is told apart from what a cluster of any size takes.
func TestEachNode(t *testing.T) {
	of := func(nodes, mib float64) []Measure {
		return []Measure{{Name: nodesMeasure, Value: nodes}, {Name: residentMeasure, Value: mib}}
	}
	if m := eachNode(of(10, 150), of(20, 155)); m.Value != 0.5 {
		t.Errorf("%+v", m)
	}
}

// Samples of Prometheus's text format, of which labels say what requests were.
func TestSample(t *testing.T) {
	for line, want := range map[string]struct {
		name, kind string
		value      float64
	}{
		"go_goroutines 12\n": {"go_goroutines", " ", 12},
		`apiserver_request_total{code="200",resource="pods",subresource="status",verb="PATCH"} 1.5e+03`: {
			"apiserver_request_total", "PATCH pods/status", 1500},
		`apiserver_request_total{resource="pods",subresource="",verb="POST"} 7`: {
			"apiserver_request_total", "POST pods", 7},
	} {
		name, value, labels, ok := sample(line)
		if !ok || name != want.name || value != want.value || kindOf(labels) != want.kind {
			t.Errorf("%q: %q, %v, %q, %v", line, name, value, kindOf(labels), ok)
		}
	}
	for _, line := range []string{"# HELP go_goroutines Number", "\n", "go_goroutines many"} {
		if _, _, _, ok := sample(line); ok {
			t.Errorf("%q is a sample", line)
		}
	}
}

// Samples count for the component of their label, and those of Go's collector, which has none, for that.
func TestShares(t *testing.T) {
	of := func(function, component string, ns int64) *profile.Sample {
		s := &profile.Sample{Value: []int64{1, ns}, Location: []*profile.Location{{
			Line: []profile.Line{{Function: &profile.Function{Name: function}}}}}}
		if component != "" {
			s.Label = map[string][]string{componentLabel: {component}}
		}
		return s
	}
	got := map[string]float64{}
	for _, s := range shares(&profile.Profile{Sample: []*profile.Sample{
		of("f", "node", 20), of("g", "node", 30), of("runtime.gcBgMarkWorker.func2", "", 25), of("runtime.mcall", "", 25),
	}}) {
		got[s.component] = s.part
	}
	if want := map[string]float64{"node": 0.5, collector: 0.25, "other": 0.25}; !maps.Equal(got, want) {
		t.Errorf("%v", got)
	}
}
