package autoscaling

import (
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestV2SurvivesV1(t *testing.T) {
	value, percent := resource.MustParse("100"), int32(70)
	h := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Name: "h", Annotations: map[string]string{"mine": "x"}},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			MaxReplicas: 5,
			Metrics: []autoscalingv2.MetricSpec{
				{Type: autoscalingv2.PodsMetricSourceType, Pods: &autoscalingv2.PodsMetricSource{
					Metric: autoscalingv2.MetricIdentifier{Name: "qps"},
					Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType,
						AverageValue: &value}}},
				cpuMetric(percent),
			},
			Behavior: &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleDown: &autoscalingv2.HPAScalingRules{}},
		},
		Status: autoscalingv2.HorizontalPodAutoscalerStatus{
			Conditions: []autoscalingv2.HorizontalPodAutoscalerCondition{
				{Type: autoscalingv2.AbleToScale, Status: "True"}},
		},
	}
	Default(h)
	v1 := ToV1(h)
	if p := v1.Spec.TargetCPUUtilizationPercentage; p == nil || *p != percent {
		t.Errorf("%+v", v1.Spec)
	}
	for _, key := range []string{metricsAnnotation, behaviorAnnotation, conditionsAnnotation, "mine"} {
		if v1.Annotations[key] == "" {
			t.Errorf("annotation %s is missing", key)
		}
	}
	if back := FromV1(v1); !apiequality.Semantic.DeepEqual(back, h) {
		t.Errorf("got  %+v\nwant %+v", back, h)
	}
}

// TestV2HasNoAnnotationsOfV1: what they would say, fields of v2 say.
func TestV2HasNoAnnotationsOfV1(t *testing.T) {
	given := map[string]string{metricsAnnotation: "[]", behaviorAnnotation: "junk", "mine": "kept"}
	h := &autoscalingv2.HorizontalPodAutoscaler{}
	h.Annotations = given
	if Default(h); len(h.Annotations) != 1 || h.Annotations["mine"] != "kept" {
		t.Errorf("got %v", h.Annotations)
	}
	if len(given) != 3 {
		t.Errorf("the map itself was changed to %v", given)
	}
}

func TestV1WithoutTarget(t *testing.T) {
	h := FromV1(&autoscalingv1.HorizontalPodAutoscaler{})
	if len(h.Spec.Metrics) != 1 || *h.Spec.Metrics[0].Resource.Target.AverageUtilization != defaultCPU {
		t.Errorf("%+v", h.Spec.Metrics)
	}
}

// TestBehaviorOfV1IsTakenAsItIs: only v2 has defaults for it; what is reserved for carrying more isn't kept.
func TestBehaviorOfV1IsTakenAsItIs(t *testing.T) {
	h := FromV1(&autoscalingv1.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
		behaviorAnnotation: `{"ScaleUp":{"StabilizationWindowSeconds":10}}`,
		"autoscaling.alpha.kubernetes.io/scale-up-tolerance": "1",
	}}})
	if b := h.Spec.Behavior; b == nil || b.ScaleUp == nil || b.ScaleUp.Policies != nil || b.ScaleDown != nil {
		t.Errorf("behavior %+v", b)
	}
	if len(h.Annotations) > 0 {
		t.Errorf("annotations %v", h.Annotations)
	}
	h = FromV1(&autoscalingv1.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{behaviorAnnotation: `{}`}}})
	if h.Spec.Behavior != nil {
		t.Errorf("nothing became %+v", h.Spec.Behavior)
	}
}

// TestFirstTargetOfV1: of several targets of CPU, v1 has the first.
func TestFirstTargetOfV1(t *testing.T) {
	h := &autoscalingv2.HorizontalPodAutoscaler{Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
		Metrics: []autoscalingv2.MetricSpec{cpuMetric(1), cpuMetric(2)}}}
	if p := ToV1(h).Spec.TargetCPUUtilizationPercentage; p == nil || *p != 1 {
		t.Errorf("got %v", p)
	}
}

// TestTargetsOfOtherMetrics: a status that is of another kind of amount than the target shows none.
func TestTargetsOfOtherMetrics(t *testing.T) {
	value, percent := resource.MustParse("100m"), int32(5)
	memory := autoscalingv2.MetricSpec{Type: autoscalingv2.ResourceMetricSourceType,
		Resource: &autoscalingv2.ResourceMetricSource{
			Name: "memory", Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType,
				AverageValue: &value}}}
	current := &autoscalingv2.MetricStatus{Resource: &autoscalingv2.ResourceMetricStatus{
		Current: autoscalingv2.MetricValueStatus{AverageUtilization: &percent}}}
	if got := target(&memory, current); got != "memory: <nil>/100m" {
		t.Errorf("shown as %q", got)
	}
	if got := target(&memory, nil); got != "memory: <unknown>/100m" {
		t.Errorf("without a status, shown as %q", got)
	}
}
