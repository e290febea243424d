package server

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"

	dto "github.com/prometheus/client_model/go"
)

// resets makes metrics start from zero for a client that sends DELETE. What was counted until then is subtracted from
// what is shown: other servers in the process share some of the metrics, and theirs are unchanged. Gauges stay, as they
// show the current state.
type resets struct {
	until atomic.Pointer[map[string]map[string]*dto.Metric] // by family and labels
}

// handle answers DELETE, and passes on all else.
func (s *resets) handle(gather func() (map[string]*dto.MetricFamily, error), next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodDelete {
			next.ServeHTTP(w, r)
			return
		}
		families, _ := gather() // what can't be told isn't shown either
		until := map[string]map[string]*dto.Metric{}
		for name, f := range families {
			if f.GetType() == dto.MetricType_GAUGE || ofProcess(name) {
				continue
			}
			until[name] = map[string]*dto.Metric{}
			for _, m := range f.Metric {
				until[name][labelsOf(m)] = m
			}
		}
		s.until.Store(&until)
		_, _ = io.WriteString(w, "metrics reset\n")
	})
}

// ofProcess are metrics of the process and the Go runtime, which can't be reset.
func ofProcess(name string) bool {
	return strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_")
}

func labelsOf(m *dto.Metric) string {
	var key strings.Builder
	for _, l := range m.Label {
		fmt.Fprintf(&key, "%q=%q,", l.GetName(), l.GetValue())
	}
	return key.String()
}

// since is a family without what was counted before it was reset: what has labels is there again when it is counted
// again.
func (s *resets) since(f *dto.MetricFamily) *dto.MetricFamily {
	all := s.until.Load()
	if all == nil || (*all)[f.GetName()] == nil {
		return f
	}
	out := &dto.MetricFamily{Name: f.Name, Help: f.Help, Type: f.Type, Unit: f.Unit}
	for _, m := range f.Metric {
		before := (*all)[f.GetName()][labelsOf(m)]
		if before == nil || amount(m) < amount(before) { // or it was reset elsewhere
			out.Metric = append(out.Metric, m)
			continue
		}
		if amount(m) == amount(before) && len(m.Label) > 0 {
			continue
		}
		out.Metric = append(out.Metric, without(m, before))
	}
	return out
}

// amount is how often something was counted, or how much of it.
func amount(m *dto.Metric) float64 {
	return m.GetCounter().GetValue() + m.GetUntyped().GetValue() +
		float64(m.GetHistogram().GetSampleCount()+m.GetSummary().GetSampleCount())
}

// without is a metric less what it was. The quantiles of summaries are of the last minutes anyway.
func without(m, before *dto.Metric) *dto.Metric {
	out := &dto.Metric{Label: m.Label, TimestampMs: m.TimestampMs}
	switch {
	case m.Counter != nil:
		out.Counter = &dto.Counter{Value: new(m.Counter.GetValue() - before.GetCounter().GetValue())}
	case m.Untyped != nil:
		out.Untyped = &dto.Untyped{Value: new(m.Untyped.GetValue() - before.GetUntyped().GetValue())}
	case m.Summary != nil:
		out.Summary = &dto.Summary{
			SampleCount: new(m.Summary.GetSampleCount() - before.GetSummary().GetSampleCount()),
			SampleSum:   new(m.Summary.GetSampleSum() - before.GetSummary().GetSampleSum()),
			Quantile:    m.Summary.Quantile,
		}
	case m.Histogram != nil:
		out.Histogram = &dto.Histogram{
			SampleCount: new(m.Histogram.GetSampleCount() - before.GetHistogram().GetSampleCount()),
			SampleSum:   new(m.Histogram.GetSampleSum() - before.GetHistogram().GetSampleSum()),
		}
		were := map[float64]uint64{}
		for _, b := range before.GetHistogram().GetBucket() {
			were[b.GetUpperBound()] = b.GetCumulativeCount()
		}
		for _, b := range m.Histogram.Bucket {
			out.Histogram.Bucket = append(out.Histogram.Bucket,
				&dto.Bucket{UpperBound: b.UpperBound,
					CumulativeCount: new(b.GetCumulativeCount() - were[b.GetUpperBound()])})
		}
	}
	return out
}
