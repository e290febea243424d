package runner

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/utils/clock"
)

// Every key that is waited for counts, however it came into the queue.
func TestMetricsOfQueues(t *testing.T) {
	registry := prometheus.NewRegistry()
	env := Env{Clock: clock.RealClock{}, Metrics: NewMetrics(registry)}
	ctx, cancel := context.WithCancel(t.Context())
	failed := false
	loop := NewLoop("things", env, func(context.Context, string) error {
		if !failed {
			failed = true
			return errors.New("not yet")
		}
		cancel()
		return nil
	})
	loop.AddAfter("key", time.Microsecond)
	if err := loop.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		if len(family.Metric) != 1 || family.Metric[0].Label[0].GetName() != "name" ||
			family.Metric[0].Label[0].GetValue() != "things" {
			t.Errorf("%s: %v", family.GetName(), family.Metric)
			continue
		}
		got[family.GetName()] = value(family.Metric[0])
	}
	delete(got, "workqueue_unfinished_work_seconds") // how long the last key took as seen in between: of no use here
	delete(got, "workqueue_longest_running_processor_seconds")
	want := map[string]float64{
		// the delayed one counts as upstream counts it
		"workqueue_adds_total": 2, "workqueue_depth": 0, "workqueue_retries_total": 2,
		"workqueue_queue_duration_seconds": 2, "workqueue_work_duration_seconds": 2,
	}
	if !maps.Equal(got, want) || len(families) != len(want)+2 {
		t.Errorf("got %v, want %v; all: %v", got, want, slices.Sorted(maps.Keys(got)))
	}
	unmeasured := NewLoop("things", Env{Clock: clock.RealClock{}}, func(context.Context, string) error { return nil })
	if err := unmeasured.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// value of a gauge or counter, or the number of observations of a histogram.
func value(m *dto.Metric) float64 {
	switch {
	case m.Gauge != nil:
		return m.Gauge.GetValue()
	case m.Counter != nil:
		return m.Counter.GetValue()
	default:
		return float64(m.Histogram.GetSampleCount())
	}
}
