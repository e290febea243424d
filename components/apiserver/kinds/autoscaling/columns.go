package autoscaling

import (
	"fmt"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"

	"quintet.dev/quintet/components/apiserver/kinds/show"
)

// shownMetrics is how many metrics the cell of targets lists.
const shownMetrics = 2

// Columns are the columns of autoscalers.
func Columns() show.Columns {
	spec, status := autoscalingv2.HorizontalPodAutoscalerSpec{}.SwaggerDoc(), autoscalingv2.HorizontalPodAutoscalerStatus{}.SwaggerDoc()
	return show.Name().
		String("Reference", spec["scaleTargetRef"]).
		String("Targets", spec["metrics"]).
		String("MinPods", spec["minReplicas"]).
		String("MaxPods", spec["maxReplicas"]).
		String("Replicas", status["currentReplicas"]).
		Age()
}

// Row are the cells of an autoscaler.
func Row(h *autoscalingv2.HorizontalPodAutoscaler) []any {
	min := show.Unset
	if h.Spec.MinReplicas != nil {
		min = fmt.Sprint(*h.Spec.MinReplicas)
	}
	return []any{
		h.Name, h.Spec.ScaleTargetRef.Kind + "/" + h.Spec.ScaleTargetRef.Name, targets(h), min,
		int64(h.Spec.MaxReplicas), int64(h.Status.CurrentReplicas), show.Age(h.CreationTimestamp),
	}
}

func targets(h *autoscalingv2.HorizontalPodAutoscaler) string {
	if len(h.Spec.Metrics) == 0 {
		return show.None
	}
	out := make([]string, len(h.Spec.Metrics))
	for i := range h.Spec.Metrics {
		var current *autoscalingv2.MetricStatus
		if i < len(h.Status.CurrentMetrics) {
			current = &h.Status.CurrentMetrics[i]
		}
		out[i] = target(&h.Spec.Metrics[i], current)
	}
	if len(out) > shownMetrics {
		return fmt.Sprintf("%s + %d more...", strings.Join(out[:shownMetrics], ", "), len(out)-shownMetrics)
	}
	return strings.Join(out, ", ")
}

func target(m *autoscalingv2.MetricSpec, s *autoscalingv2.MetricStatus) string {
	if s == nil {
		s = &autoscalingv2.MetricStatus{}
	}
	var current autoscalingv2.MetricValueStatus
	switch m.Type {
	case autoscalingv2.ExternalMetricSourceType:
		if s.External != nil {
			current = s.External.Current
		}
		return valueOf(m.External.Target, current)
	case autoscalingv2.PodsMetricSourceType:
		if s.Pods != nil {
			current = s.Pods.Current
		}
		return text(current.AverageValue) + "/" + text(m.Pods.Target.AverageValue)
	case autoscalingv2.ObjectMetricSourceType:
		if s.Object != nil {
			current = s.Object.Current
		}
		return valueOf(m.Object.Target, current)
	case autoscalingv2.ResourceMetricSourceType:
		if s.Resource != nil {
			current = s.Resource.Current
		}
		return string(m.Resource.Name) + ": " + share(m.Resource.Target, current)
	case autoscalingv2.ContainerResourceMetricSourceType:
		if s.ContainerResource != nil {
			current = s.ContainerResource.Current
		}
		return string(m.ContainerResource.Name) + ": " + share(m.ContainerResource.Target, current)
	}
	return "<unknown type>"
}

func valueOf(t autoscalingv2.MetricTarget, current autoscalingv2.MetricValueStatus) string {
	if t.AverageValue != nil {
		return text(current.AverageValue) + "/" + text(t.AverageValue) + " (avg)"
	}
	return text(current.Value) + "/" + text(t.Value)
}

func share(t autoscalingv2.MetricTarget, current autoscalingv2.MetricValueStatus) string {
	if t.AverageValue != nil {
		return text(current.AverageValue) + "/" + text(t.AverageValue)
	}
	have, want := show.Unknown, "<auto>"
	if current.AverageUtilization != nil {
		have = fmt.Sprintf("%d%%", *current.AverageUtilization)
	}
	if t.AverageUtilization != nil {
		want = fmt.Sprintf("%d%%", *t.AverageUtilization)
	}
	return have + "/" + want
}

func text(q *resource.Quantity) string {
	if q == nil {
		return show.Unknown
	}
	return q.String()
}
