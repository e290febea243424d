package server

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/component-base/metrics/legacyregistry"
)

// Exposition is what /metrics shows of the metrics there are.
type Exposition struct {
	// Disabled are names of metrics that are left out.
	Disabled []string
	// Labels are the values that labels keep, by metric and label; others become "unexpected".
	Labels map[string]map[string][]string
	// Minor is this release's. Metrics that were deprecated before it are left out, unless Hidden.
	Minor  int
	Hidden bool
	// Resets lets DELETE reset them.
	Resets bool
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

// handler shows the server's own metrics, and those of the process and of the libraries in it, which know one registry
// only. Of two families of a name the first is shown: libraries measure some of what is measured here.
func (m *metrics) handler(registry prometheus.Gatherer, more []prometheus.Gatherer, show Exposition) http.Handler {
	all := append([]prometheus.Gatherer{registry, legacyregistry.DefaultGatherer}, more...)
	gather := func() (map[string]*dto.MetricFamily, error) {
		families := map[string]*dto.MetricFamily{}
		var errs []error
		for i, g := range all {
			found, err := g.Gather()
			errs = append(errs, err)
			for _, f := range found {
				if families[f.GetName()] != nil || show.omits(f) {
					continue
				}
				if i == 0 {
					f = staged(f)
				}
				families[f.GetName()] = f
			}
		}
		return families, errors.Join(errs...)
	}
	shown := promhttp.HandlerFor(prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		families, err := gather()
		return show.of(families, &m.resets), err
	}), promhttp.HandlerOpts{ProcessStartTime: m.started})
	if !show.Resets {
		return shown
	}
	return m.resets.handle(gather, shown)
}

// of is what is shown of all there is, in order.
func (e *Exposition) of(families map[string]*dto.MetricFamily, since *resets) []*dto.MetricFamily {
	var times uint64
	for name, f := range families {
		f, n := e.limit(since.since(f))
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

func (e *Exposition) omits(f *dto.MetricFamily) bool {
	if slices.Contains(e.Disabled, f.GetName()) {
		return true
	}
	if since := deprecated.FindStringSubmatch(f.GetHelp()); since != nil && !e.Hidden {
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
