package autoscaling

import (
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
)

// defaultCPU is the target where no metric is given, in percent of the request.
const defaultCPU = int32(80)

// DefaultV1 sets the defaults of v1 that don't depend on annotations.
func DefaultV1(h *autoscalingv1.HorizontalPodAutoscaler) { setDefault(&h.Spec.MinReplicas, 1) }

// Default sets the defaults of v2, which has fields for what annotations carry in v1.
func Default(h *autoscalingv2.HorizontalPodAutoscaler) {
	h.Annotations = annotated(h.Annotations, nil)
	setDefault(&h.Spec.MinReplicas, 1)
	if len(h.Spec.Metrics) == 0 {
		h.Spec.Metrics = []autoscalingv2.MetricSpec{cpuMetric(defaultCPU)}
	}
	if b := h.Spec.Behavior; b != nil {
		if b.ScaleUp == nil {
			b.ScaleUp = &autoscalingv2.HPAScalingRules{}
		}
		if b.ScaleDown == nil {
			b.ScaleDown = &autoscalingv2.HPAScalingRules{}
		}
		setDefault(&b.ScaleUp.StabilizationWindowSeconds, 0)
		setDefault(&b.ScaleUp.SelectPolicy, autoscalingv2.MaxChangePolicySelect)
		if b.ScaleUp.Policies == nil {
			b.ScaleUp.Policies = []autoscalingv2.HPAScalingPolicy{
				{Type: autoscalingv2.PodsScalingPolicy, Value: 4, PeriodSeconds: 15},
				{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: 15},
			}
		}
		setDefault(&b.ScaleDown.SelectPolicy, autoscalingv2.MaxChangePolicySelect)
		if b.ScaleDown.Policies == nil {
			b.ScaleDown.Policies = []autoscalingv2.HPAScalingPolicy{
				{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: 15},
			}
		}
	}
}

func cpuMetric(percent int32) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{
		Type: autoscalingv2.ResourceMetricSourceType,
		Resource: &autoscalingv2.ResourceMetricSource{
			Name:   corev1.ResourceCPU,
			Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &percent},
		},
	}
}

func setDefault[T any](p **T, value T) {
	if *p == nil {
		*p = &value
	}
}
