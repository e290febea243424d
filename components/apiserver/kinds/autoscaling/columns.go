package autoscaling

import (
	"fmt"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"quintet.dev/quintet/components/apiserver/kinds/show"
)

// shownMetrics is how many metrics the cell of targets lists.
const shownMetrics = 2

// Columns are the columns of autoscalers.
func Columns() show.Columns {
	spec, status := autoscalingv2.HorizontalPodAutoscalerSpec{}.SwaggerDoc(),
		autoscalingv2.HorizontalPodAutoscalerStatus{}.SwaggerDoc()
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
	switch m.Type {
	case autoscalingv2.ExternalMetricSourceType:
		if s.External == nil {
			return valueOf(m.External.Target, nil)
		}
		return valueOf(m.External.Target, &s.External.Current)
	case autoscalingv2.PodsMetricSourceType:
		if s.Pods == nil {
			return show.Unknown + "/" + m.Pods.Target.AverageValue.String()
		}
		return s.Pods.Current.AverageValue.String() + "/" + m.Pods.Target.AverageValue.String()
	case autoscalingv2.ObjectMetricSourceType:
		if s.Object == nil {
			return valueOf(m.Object.Target, nil)
		}
		return valueOf(m.Object.Target, &s.Object.Current)
	case autoscalingv2.ResourceMetricSourceType:
		var current *autoscalingv2.MetricValueStatus
		if s.Resource != nil {
			current = &s.Resource.Current
		}
		return string(m.Resource.Name) + ": " + share(m.Resource.Target, current)
	case autoscalingv2.ContainerResourceMetricSourceType:
		var current *autoscalingv2.MetricValueStatus
		if s.ContainerResource != nil {
			current = &s.ContainerResource.Current
		}
		return string(m.ContainerResource.Name) + ": " + share(m.ContainerResource.Target, current)
	}
	return "<unknown type>"
}

// valueOf shows a target and what there is of it, of which nil is not known yet.
func valueOf(t autoscalingv2.MetricTarget, current *autoscalingv2.MetricValueStatus) string {
	have := show.Unknown
	if t.AverageValue != nil {
		if current != nil && current.AverageValue != nil {
			have = current.AverageValue.String()
		}
		return have + "/" + t.AverageValue.String() + " (avg)"
	}
	if current != nil {
		have = current.Value.String() // of none, "<nil>"
	}
	return have + "/" + t.Value.String()
}

// share is valueOf for resources.
func share(t autoscalingv2.MetricTarget, current *autoscalingv2.MetricValueStatus) string {
	have, want := show.Unknown, "<auto>"
	if t.AverageValue != nil {
		if current != nil {
			have = current.AverageValue.String()
		}
		return have + "/" + t.AverageValue.String()
	}
	if current != nil && current.AverageUtilization != nil {
		have = fmt.Sprintf("%d%%", *current.AverageUtilization)
	}
	if t.AverageUtilization != nil {
		want = fmt.Sprintf("%d%%", *t.AverageUtilization)
	}
	return have + "/" + want
}
