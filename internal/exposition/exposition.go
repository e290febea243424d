// Package exposition is what /metrics shows of the metrics there are, as the flags of upstream's components say
// (https://kubernetes.io/docs/concepts/cluster-administration/system-metrics/).
package exposition

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Exposition chooses. The zero value shows all that this release does.
type Exposition struct {
	// Disabled are names of metrics that are left out.
	Disabled []string
	// Labels are the values that labels keep, by metric and label; others become "unexpected".
	Labels map[string]map[string][]string
	// Minor is this release's. Metrics that were deprecated before it are left out, unless Hidden.
	Minor  int
	Hidden bool
}

// unexpected is the value of labels that may not have theirs; limited, how upstream tells how often there was one.
const (
	unexpected = "unexpected"
	limited    = "cardinality_enforcement_unexpected_categorizations_total"
)

// ParseLabels reads metric,label to values, separated by commas, as --allow-metric-labels has it.
func ParseLabels(list map[string]string) (map[string]map[string][]string, error) {
	out := map[string]map[string][]string{}
	for key, values := range list {
		metric, label, ok := strings.Cut(key, ",")
		if !ok || metric == "" || label == "" || strings.Contains(label, ",") {
			return nil, fmt.Errorf("%q is not a metric and a label: metric,label=value,value", key)
		}
		if out[metric] == nil {
			out[metric] = map[string][]string{}
		}
		out[metric][label] = strings.Split(values, ",")
	}
	return out, nil
}

// Of is what is shown of the metrics of g.
func (e *Exposition) Of(g prometheus.Gatherer) prometheus.Gatherer {
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		found, err := g.Gather()
		families := map[string]*dto.MetricFamily{}
		for _, f := range append(e.counts(g), found...) {
			if !e.Omits(f) {
				families[f.GetName()] = f
			}
		}
		return e.Limit(families), err
	})
}

// Limit limits the labels of metrics, and returns them in order of their names. It changes the map.
func (e *Exposition) Limit(families map[string]*dto.MetricFamily) []*dto.MetricFamily {
	var times uint64
	for name, f := range families {
		f, n := e.limit(f)
		families[name] = f
		times += n
	}
	if f := families[limited]; f != nil {
		families[limited] = counting(f, times)
	}
	var out []*dto.MetricFamily
	for _, name := range slices.Sorted(maps.Keys(families)) {
		if f := families[name]; len(f.Metric) > 0 {
			out = append(out, f)
		}
	}
	return out
}

// deprecated is how component-base marks what is to go.
var deprecated = regexp.MustCompile(`\(Deprecated since 1\.(\d+)\.\d+\)`)

// Omits tells whether nothing of a metric is shown.
func (e *Exposition) Omits(f *dto.MetricFamily) bool {
	return slices.Contains(e.Disabled, f.GetName()) || e.hides(f.GetHelp())
}

// hides tells whether a metric was deprecated too long ago to be shown.
func (e *Exposition) hides(help string) bool {
	if since := deprecated.FindStringSubmatch(help); since != nil && !e.Hidden {
		minor, err := strconv.Atoi(since[1])
		return err == nil && minor < e.Minor
	}
	return false
}

// counting is a family of one counter with its value.
func counting(f *dto.MetricFamily, value uint64) *dto.MetricFamily {
	return &dto.MetricFamily{Name: f.Name, Help: f.Help, Type: f.Type, Unit: f.Unit,
		Metric: []*dto.Metric{{Counter: &dto.Counter{Value: new(float64(value))}}}}
}

// limit replaces the values of labels that are not allowed, and adds up what then has the same labels. times is how
// often something was counted or measured by a value that was replaced.
func (e *Exposition) limit(f *dto.MetricFamily) (_ *dto.MetricFamily, times uint64) {
	allowed := e.Labels[f.GetName()]
	if allowed == nil {
		return f, 0
	}
	out := &dto.MetricFamily{Name: f.Name, Help: f.Help, Type: f.Type, Unit: f.Unit}
	merged := map[string]*dto.Metric{}
	for _, m := range f.Metric {
		var key strings.Builder
		labels := slices.Clone(m.Label) // which are the metric's own
		for i, l := range labels {
			if values, ok := allowed[l.GetName()]; ok && !slices.Contains(values, l.GetValue()) {
				labels[i] = &dto.LabelPair{Name: l.Name, Value: new(unexpected)}
				times += uint64(m.GetCounter().GetValue()) + m.GetHistogram().GetSampleCount() +
					m.GetSummary().GetSampleCount()
			}
			fmt.Fprintf(&key, "%q,", labels[i].GetValue())
		}
		m = &dto.Metric{Label: labels, Counter: m.Counter, Gauge: m.Gauge, Histogram: m.Histogram, Summary: m.Summary,
			Untyped: m.Untyped, TimestampMs: m.TimestampMs}
		if have := merged[key.String()]; have != nil {
			addUp(have, m)
			continue
		}
		merged[key.String()] = m
		out.Metric = append(out.Metric, m)
	}
	return out, times
}

// addUp adds a metric to another with the same buckets. Of summaries, whose quantiles can't be added, the first stays,
// with all that was counted.
func addUp(to, m *dto.Metric) {
	switch {
	case m.Counter != nil:
		to.Counter.Value = new(to.Counter.GetValue() + m.Counter.GetValue())
	case m.Gauge != nil:
		to.Gauge.Value = new(to.Gauge.GetValue() + m.Gauge.GetValue())
	case m.Summary != nil:
		to.Summary.SampleCount = new(to.Summary.GetSampleCount() + m.Summary.GetSampleCount())
		to.Summary.SampleSum = new(to.Summary.GetSampleSum() + m.Summary.GetSampleSum())
	case m.Histogram != nil:
		to.Histogram.SampleCount = new(to.Histogram.GetSampleCount() + m.Histogram.GetSampleCount())
		to.Histogram.SampleSum = new(to.Histogram.GetSampleSum() + m.Histogram.GetSampleSum())
		for i, b := range m.Histogram.Bucket {
			into := to.Histogram.Bucket[i]
			into.CumulativeCount = new(into.GetCumulativeCount() + b.GetCumulativeCount())
		}
	}
}
