package autoscaling

import (
	"cmp"
	"encoding/json"
	"maps"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
)

// Annotations of v1 that carry, as JSON, what v1 has no fields for.
const (
	metricsAnnotation    = "autoscaling.alpha.kubernetes.io/metrics"
	currentAnnotation    = "autoscaling.alpha.kubernetes.io/current-metrics"
	conditionsAnnotation = "autoscaling.alpha.kubernetes.io/conditions"
	behaviorAnnotation   = "autoscaling.alpha.kubernetes.io/behavior"
)

// carriers are the annotations that no autoscaler has of its own: those above, and those that are kept free for more of
// that.
var carriers = [...]string{
	metricsAnnotation, currentAnnotation, conditionsAnnotation, behaviorAnnotation,
	"autoscaling.alpha.kubernetes.io/scale-down-tolerance", "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
}

// ToV1 converts to v1; what doesn't fit goes into annotations.
func ToV1(h *autoscalingv2.HorizontalPodAutoscaler) *autoscalingv1.HorizontalPodAutoscaler {
	out := &autoscalingv1.HorizontalPodAutoscaler{
		ObjectMeta: h.ObjectMeta,
		Spec: autoscalingv1.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv1.CrossVersionObjectReference(h.Spec.ScaleTargetRef),
			MinReplicas:    h.Spec.MinReplicas, MaxReplicas: h.Spec.MaxReplicas,
		},
		Status: autoscalingv1.HorizontalPodAutoscalerStatus{
			ObservedGeneration: h.Status.ObservedGeneration, LastScaleTime: h.Status.LastScaleTime,
			CurrentReplicas: h.Status.CurrentReplicas, DesiredReplicas: h.Status.DesiredReplicas,
		},
	}
	var others []autoscalingv1.MetricSpec
	for i := range h.Spec.Metrics {
		m := &h.Spec.Metrics[i]
		if isCPU(m) {
			out.Spec.TargetCPUUtilizationPercentage = cmp.Or(out.Spec.TargetCPUUtilizationPercentage,
				m.Resource.Target.AverageUtilization)
			continue
		}
		others = append(others, specToV1(m))
	}
	// The status keeps the CPU here too, for its raw value.
	var current []autoscalingv1.MetricStatus
	for i := range h.Status.CurrentMetrics {
		m := &h.Status.CurrentMetrics[i]
		if m.Type == autoscalingv2.ResourceMetricSourceType && m.Resource != nil &&
			m.Resource.Name == corev1.ResourceCPU &&
			m.Resource.Current.AverageUtilization != nil {
			out.Status.CurrentCPUUtilizationPercentage = m.Resource.Current.AverageUtilization
		}
		current = append(current, statusToV1(m))
	}
	notes := map[string]any{}
	if len(others) > 0 {
		notes[metricsAnnotation] = others
	}
	if len(current) > 0 {
		notes[currentAnnotation] = current
	}
	if h.Spec.Behavior != nil {
		notes[behaviorAnnotation] = internalBehavior(h.Spec.Behavior)
	}
	if len(h.Status.Conditions) > 0 {
		notes[conditionsAnnotation] = conditionsToV1(h.Status.Conditions)
	}
	out.Annotations = annotated(h.Annotations, notes)
	return out
}

func isCPU(m *autoscalingv2.MetricSpec) bool {
	return m.Type == autoscalingv2.ResourceMetricSourceType && m.Resource != nil &&
		m.Resource.Name == corev1.ResourceCPU && m.Resource.Target.AverageUtilization != nil
}

// annotated returns the annotations without those of the round trip, and with the notes.
func annotated(old map[string]string, notes map[string]any) map[string]string {
	if len(notes) == 0 && !carries(old) {
		return old
	}
	out := maps.Clone(old)
	if out == nil {
		out = map[string]string{}
	}
	for _, key := range carriers {
		delete(out, key)
	}
	for key, value := range notes {
		// These are plain API types, they always have a JSON form.
		data, err := json.Marshal(value)
		if err == nil {
			out[key] = string(data)
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

func carries(annotations map[string]string) bool {
	for _, key := range carriers {
		if _, ok := annotations[key]; ok {
			return true
		}
	}
	return false
}

// FromV1 converts from v1, annotations included; annotations that can't be read are dropped.
func FromV1(h *autoscalingv1.HorizontalPodAutoscaler) *autoscalingv2.HorizontalPodAutoscaler {
	out := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: h.ObjectMeta,
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference(h.Spec.ScaleTargetRef),
			MinReplicas:    h.Spec.MinReplicas, MaxReplicas: h.Spec.MaxReplicas,
		},
		Status: autoscalingv2.HorizontalPodAutoscalerStatus{
			ObservedGeneration: h.Status.ObservedGeneration, LastScaleTime: h.Status.LastScaleTime,
			CurrentReplicas: h.Status.CurrentReplicas, DesiredReplicas: h.Status.DesiredReplicas,
		},
	}
	var others []autoscalingv1.MetricSpec
	if read(h.Annotations, metricsAnnotation, &others) {
		for i := range others {
			out.Spec.Metrics = append(out.Spec.Metrics, specFromV1(&others[i]))
		}
	}
	if p := h.Spec.TargetCPUUtilizationPercentage; p != nil {
		out.Spec.Metrics = append(out.Spec.Metrics, cpuMetric(*p))
	}
	if len(out.Spec.Metrics) == 0 {
		out.Spec.Metrics = []autoscalingv2.MetricSpec{cpuMetric(defaultCPU)}
	}
	var current []autoscalingv1.MetricStatus
	if read(h.Annotations, currentAnnotation, &current) {
		for i := range current {
			out.Status.CurrentMetrics = append(out.Status.CurrentMetrics, statusFromV1(&current[i]))
		}
	} else if p := h.Status.CurrentCPUUtilizationPercentage; p != nil {
		out.Status.CurrentMetrics = []autoscalingv2.MetricStatus{{
			Type: autoscalingv2.ResourceMetricSourceType,
			Resource: &autoscalingv2.ResourceMetricStatus{
				Name: corev1.ResourceCPU, Current: autoscalingv2.MetricValueStatus{AverageUtilization: p},
			},
		}}
	}
	var b behavior
	if read(h.Annotations, behaviorAnnotation, &b) && b != (behavior{}) {
		out.Spec.Behavior = b.toV2()
	}
	var conditions []autoscalingv1.HorizontalPodAutoscalerCondition
	if read(h.Annotations, conditionsAnnotation, &conditions) {
		out.Status.Conditions = conditionsFromV1(conditions)
	}
	out.Annotations = annotated(h.Annotations, nil)
	return out
}

func read(annotations map[string]string, key string, into any) bool {
	value, ok := annotations[key]
	return ok && json.Unmarshal([]byte(value), into) == nil
}

func conditionsToV1(
	in []autoscalingv2.HorizontalPodAutoscalerCondition,
) []autoscalingv1.HorizontalPodAutoscalerCondition {
	out := make([]autoscalingv1.HorizontalPodAutoscalerCondition, len(in))
	for i, c := range in {
		out[i] = autoscalingv1.HorizontalPodAutoscalerCondition{
			Type: autoscalingv1.HorizontalPodAutoscalerConditionType(c.Type), Status: c.Status,
			LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message,
		}
	}
	return out
}

func conditionsFromV1(
	in []autoscalingv1.HorizontalPodAutoscalerCondition,
) []autoscalingv2.HorizontalPodAutoscalerCondition {
	out := make([]autoscalingv2.HorizontalPodAutoscalerCondition, len(in))
	for i, c := range in {
		out[i] = autoscalingv2.HorizontalPodAutoscalerCondition{
			Type: autoscalingv2.HorizontalPodAutoscalerConditionType(c.Type), Status: c.Status,
			LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message,
		}
	}
	return out
}
