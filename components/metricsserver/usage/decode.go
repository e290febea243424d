package usage

import (
	"fmt"
	"io"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/apimachinery/pkg/types"
)

// Decode reads what the kubelet of a node serves at /metrics/resource. Values without a time were measured at now.
func Decode(from io.Reader, node string, now time.Time) (Batch, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(from)
	if err != nil {
		return Batch{}, fmt.Errorf("parse the metrics of node %q: %w", node, err)
	}
	b := NewBatch()
	var machine Point
	for _, m := range families["node_cpu_usage_seconds_total"].GetMetric() {
		machine.CPU, machine.At = seconds(value(m)), measured(m, now)
	}
	for _, m := range families["node_memory_working_set_bytes"].GetMetric() {
		machine.Memory = uint64(value(m))
	}
	b.Nodes[node] = machine
	for name, set := range map[string]func(*Point, *dto.Metric){
		"container_cpu_usage_seconds_total": func(p *Point, m *dto.Metric) {
			p.CPU, p.At = seconds(value(m)), measured(m, now)
		},
		"container_memory_working_set_bytes": func(p *Point, m *dto.Metric) { p.Memory = uint64(value(m)) },
		"container_start_time_seconds": func(p *Point, m *dto.Metric) {
			p.Started = time.Unix(0, int64(seconds(value(m))))
		},
	} {
		for _, m := range families[name].GetMetric() {
			b.container(m, set)
		}
	}
	b.DropIncomplete()
	return b, nil
}

// container changes the point of the container that a metric is of.
func (b Batch) container(m *dto.Metric, set func(*Point, *dto.Metric)) {
	var pod types.NamespacedName
	var name string
	for _, label := range m.GetLabel() {
		switch label.GetName() {
		case "container":
			name = label.GetValue()
		case "namespace":
			pod.Namespace = label.GetValue()
		case "pod":
			pod.Name = label.GetValue()
		}
	}
	if b.Pods[pod] == nil {
		b.Pods[pod] = map[string]Point{}
	}
	p := b.Pods[pod][name]
	set(&p, m)
	b.Pods[pod][name] = p
}

// value is that of a counter, a gauge or a metric without a type.
func value(m *dto.Metric) float64 {
	switch {
	case m.Counter != nil:
		return m.Counter.GetValue()
	case m.Gauge != nil:
		return m.Gauge.GetValue()
	default:
		return m.Untyped.GetValue()
	}
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

func measured(m *dto.Metric, now time.Time) time.Time {
	if m.TimestampMs == nil {
		return now
	}
	return time.UnixMilli(m.GetTimestampMs())
}
