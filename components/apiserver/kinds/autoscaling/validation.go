package autoscaling

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/validation/path"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Bounds of scaling behavior, in seconds.
const (
	maxPeriod = 1800
	maxWindow = 3600
)

// Validate checks an autoscaler.
func Validate(h *autoscalingv2.HorizontalPodAutoscaler) field.ErrorList {
	var errs field.ErrorList
	at, s := field.NewPath("spec"), &h.Spec
	if s.MinReplicas != nil && *s.MinReplicas < 1 {
		errs = append(errs, field.Invalid(at.Child("minReplicas"), *s.MinReplicas, "must be greater than or equal to 1"))
	}
	if s.MaxReplicas < 1 {
		errs = append(errs, field.Invalid(at.Child("maxReplicas"), s.MaxReplicas, "must be greater than 0"))
	}
	if s.MinReplicas != nil && s.MaxReplicas < *s.MinReplicas {
		errs = append(errs, field.Invalid(at.Child("maxReplicas"), s.MaxReplicas, "must be greater than or equal to `minReplicas`"))
	}
	errs = append(errs, validateRef(s.ScaleTargetRef, at.Child("scaleTargetRef"))...)
	errs = append(errs, validateMetrics(s.Metrics, at.Child("metrics"), s.MinReplicas)...)
	if s.Behavior != nil {
		errs = append(errs, validateRules(s.Behavior.ScaleUp, at.Child("behavior", "scaleUp"))...)
		errs = append(errs, validateRules(s.Behavior.ScaleDown, at.Child("behavior", "scaleDown"))...)
	}
	return errs
}

// ValidateUpdate checks a change.
func ValidateUpdate(new, _ *autoscalingv2.HorizontalPodAutoscaler) field.ErrorList {
	return Validate(new)
}

// ValidateStatusUpdate checks a change of the status.
func ValidateStatusUpdate(new, _ *autoscalingv2.HorizontalPodAutoscaler) field.ErrorList {
	var errs field.ErrorList
	at := field.NewPath("status")
	for _, f := range []struct {
		name  string
		value int32
	}{{"currentReplicas", new.Status.CurrentReplicas}, {"desiredReplicas", new.Status.DesiredReplicas}} {
		if f.value < 0 {
			errs = append(errs, field.Invalid(at.Child(f.name), int64(f.value), "must be greater than or equal to 0"))
		}
	}
	return errs
}

func validateRef(r autoscalingv2.CrossVersionObjectReference, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	segment := func(value string, p *field.Path) {
		if value == "" {
			errs = append(errs, field.Required(p, ""))
			return
		}
		for _, msg := range path.IsValidPathSegmentName(value) {
			errs = append(errs, field.Invalid(p, value, msg))
		}
	}
	segment(r.Kind, at.Child("kind"))
	segment(r.Name, at.Child("name"))
	return errs
}

func validateRules(r *autoscalingv2.HPAScalingRules, at *field.Path) field.ErrorList {
	if r == nil {
		return nil
	}
	var errs field.ErrorList
	if w := r.StabilizationWindowSeconds; w != nil {
		if *w < 0 {
			errs = append(errs, field.Invalid(at.Child("stabilizationWindowSeconds"), *w, "must be greater than or equal to zero"))
		}
		if *w > maxWindow {
			errs = append(errs, field.Invalid(at.Child("stabilizationWindowSeconds"), *w, "must be less than or equal to 3600"))
		}
	}
	if p := r.SelectPolicy; p != nil {
		switch *p {
		case autoscalingv2.MaxChangePolicySelect, autoscalingv2.MinChangePolicySelect, autoscalingv2.DisabledPolicySelect:
		default:
			errs = append(errs, field.NotSupported(at.Child("selectPolicy"), *p, []autoscalingv2.ScalingPolicySelect{
				autoscalingv2.DisabledPolicySelect, autoscalingv2.MaxChangePolicySelect, autoscalingv2.MinChangePolicySelect}))
		}
	}
	if len(r.Policies) == 0 {
		errs = append(errs, field.Required(at.Child("policies"), "must specify at least one Policy"))
	}
	for i, p := range r.Policies {
		q := at.Child("policies").Index(i)
		if p.Type != autoscalingv2.PodsScalingPolicy && p.Type != autoscalingv2.PercentScalingPolicy {
			errs = append(errs, field.NotSupported(q.Child("type"), p.Type,
				[]autoscalingv2.HPAScalingPolicyType{autoscalingv2.PercentScalingPolicy, autoscalingv2.PodsScalingPolicy}))
		}
		if p.Value <= 0 {
			errs = append(errs, field.Invalid(q.Child("value"), p.Value, "must be greater than zero"))
		}
		if p.PeriodSeconds <= 0 {
			errs = append(errs, field.Invalid(q.Child("periodSeconds"), p.PeriodSeconds, "must be greater than zero"))
		}
		if p.PeriodSeconds > maxPeriod {
			errs = append(errs, field.Invalid(q.Child("periodSeconds"), p.PeriodSeconds, "must be less than or equal to 1800"))
		}
	}
	if r.Tolerance != nil && r.Tolerance.Sign() < 0 {
		errs = append(errs, field.Invalid(at.Child("tolerance"), r.Tolerance.String(), "must be greater than or equal to 0"))
	}
	return errs
}

func validateMetrics(list []autoscalingv2.MetricSpec, at *field.Path, min *int32) field.ErrorList {
	var errs field.ErrorList
	scalable := false
	for i := range list {
		errs = append(errs, validateMetric(&list[i], at.Index(i))...)
		scalable = scalable || list[i].Type == autoscalingv2.ObjectMetricSourceType || list[i].Type == autoscalingv2.ExternalMetricSourceType
	}
	if min != nil && *min == 0 && !scalable {
		errs = append(errs, field.Forbidden(at, "must specify at least one Object or External metric to support scaling to zero replicas"))
	}
	return errs
}

func validateMetric(m *autoscalingv2.MetricSpec, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if m.Type == "" {
		return field.ErrorList{field.Required(at.Child("type"), "must specify a metric source type")}
	}
	sources := []struct {
		kind autoscalingv2.MetricSourceType
		name string
		set  bool
	}{
		{autoscalingv2.ObjectMetricSourceType, "object", m.Object != nil},
		{autoscalingv2.PodsMetricSourceType, "pods", m.Pods != nil},
		{autoscalingv2.ResourceMetricSourceType, "resource", m.Resource != nil},
		{autoscalingv2.ContainerResourceMetricSourceType, "containerResource", m.ContainerResource != nil},
		{autoscalingv2.ExternalMetricSourceType, "external", m.External != nil},
	}
	known := false
	for _, s := range sources {
		switch {
		case s.kind == m.Type:
			known = true
			if !s.set {
				errs = append(errs, field.Required(at.Child(s.name), "must populate information for the given metric source"))
			}
		case s.set:
			errs = append(errs, field.Forbidden(at.Child(s.name), "must populate the given metric source only"))
		}
	}
	if !known {
		return append(errs, field.NotSupported(at.Child("type"), m.Type, []autoscalingv2.MetricSourceType{
			autoscalingv2.ContainerResourceMetricSourceType, autoscalingv2.ExternalMetricSourceType,
			autoscalingv2.ObjectMetricSourceType, autoscalingv2.PodsMetricSourceType, autoscalingv2.ResourceMetricSourceType}))
	}
	if len(errs) > 0 {
		return errs
	}
	return validateSource(m, at)
}

func validateSource(m *autoscalingv2.MetricSpec, at *field.Path) field.ErrorList {
	const oneValue = "must set either a target raw value or a target average value"
	var errs field.ErrorList
	switch m.Type {
	case autoscalingv2.ObjectMetricSourceType:
		p, t := at.Child("object"), m.Object.Target
		errs = append(errs, validateRef(m.Object.DescribedObject, p.Child("describedObject"))...)
		errs = append(errs, validateIdentifier(m.Object.Metric, p.Child("metric"))...)
		errs = append(errs, validateTarget(t, p.Child("target"))...)
		if t.Value == nil && t.AverageValue == nil {
			errs = append(errs, field.Required(p.Child("target", "averageValue"), oneValue))
		}
	case autoscalingv2.PodsMetricSourceType:
		p := at.Child("pods")
		errs = append(errs, validateIdentifier(m.Pods.Metric, p.Child("metric"))...)
		errs = append(errs, validateTarget(m.Pods.Target, p.Child("target"))...)
		if v := m.Pods.Target.AverageValue; v == nil || v.Sign() != 1 {
			errs = append(errs, field.Required(p.Child("target", "averageValue"), "must specify a positive target averageValue"))
		}
	case autoscalingv2.ResourceMetricSourceType:
		p := at.Child("resource")
		if m.Resource.Name == "" {
			errs = append(errs, field.Required(p.Child("name"), "must specify a resource name"))
		}
		errs = append(errs, validateShare(m.Resource.Target, p.Child("target"))...)
	case autoscalingv2.ContainerResourceMetricSourceType:
		p := at.Child("containerResource")
		if m.ContainerResource.Name == "" {
			errs = append(errs, field.Required(p.Child("name"), "must specify a resource name"))
		}
		if m.ContainerResource.Container == "" {
			errs = append(errs, field.Required(p.Child("container"), "must specify a container"))
		}
		errs = append(errs, validateShare(m.ContainerResource.Target, p.Child("target"))...)
	case autoscalingv2.ExternalMetricSourceType:
		p, t := at.Child("external"), m.External.Target
		errs = append(errs, validateIdentifier(m.External.Metric, p.Child("metric"))...)
		errs = append(errs, validateTarget(t, p.Child("target"))...)
		if t.Value == nil && t.AverageValue == nil {
			errs = append(errs, field.Required(p.Child("target", "averageValue"), "must set either a target value for metric or a per-pod target"))
		}
		if t.Value != nil && t.AverageValue != nil {
			errs = append(errs, field.Forbidden(p.Child("target", "value"), "may not set both a target value for metric and a per-pod target"))
		}
	}
	return errs
}

func validateShare(t autoscalingv2.MetricTarget, at *field.Path) field.ErrorList {
	errs := validateTarget(t, at)
	if t.AverageUtilization == nil && t.AverageValue == nil {
		errs = append(errs, field.Required(at.Child("averageUtilization"), "must set either a target raw value or a target utilization"))
	}
	if t.AverageUtilization != nil && t.AverageValue != nil {
		errs = append(errs, field.Forbidden(at.Child("averageValue"), "may not set both a target raw value and a target utilization"))
	}
	return errs
}

func validateTarget(t autoscalingv2.MetricTarget, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch t.Type {
	case "":
		errs = append(errs, field.Required(at.Child("type"), "must specify a metric target type"))
	case autoscalingv2.UtilizationMetricType, autoscalingv2.ValueMetricType, autoscalingv2.AverageValueMetricType:
	default:
		errs = append(errs, field.Invalid(at.Child("type"), t.Type, "must be either Utilization, Value, or AverageValue"))
	}
	if t.Value != nil && t.Value.Sign() != 1 {
		errs = append(errs, field.Invalid(at.Child("value"), t.Value, "must be positive"))
	}
	if t.AverageValue != nil && t.AverageValue.Sign() != 1 {
		errs = append(errs, field.Invalid(at.Child("averageValue"), t.AverageValue, "must be positive"))
	}
	if t.AverageUtilization != nil && *t.AverageUtilization < 1 {
		errs = append(errs, field.Invalid(at.Child("averageUtilization"), t.AverageUtilization, "must be greater than 0"))
	}
	return errs
}

func validateIdentifier(m autoscalingv2.MetricIdentifier, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if m.Name == "" {
		errs = append(errs, field.Required(at.Child("name"), "must specify a metric name"))
	} else {
		for _, msg := range path.IsValidPathSegmentName(m.Name) {
			errs = append(errs, field.Invalid(at.Child("name"), m.Name, msg))
		}
	}
	if m.Selector != nil {
		errs = append(errs, metavalidation.ValidateLabelSelector(m.Selector, metavalidation.LabelSelectorValidationOptions{}, at.Child("selector"))...)
	}
	return errs
}
