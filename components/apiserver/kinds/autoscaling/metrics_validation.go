package autoscaling

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/validation/path"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
	"quintet.dev/quintet/components/apiserver/kinds/podspec"
)

func validateMetrics(list []autoscalingv2.MetricSpec, at *field.Path, min *int32, objects versions) field.ErrorList {
	var errs field.ErrorList
	scalable := false
	for i := range list {
		errs = append(errs, validateMetric(&list[i], at.Index(i), objects)...)
		scalable = scalable || list[i].Type == autoscalingv2.ObjectMetricSourceType ||
			list[i].Type == autoscalingv2.ExternalMetricSourceType
	}
	if min != nil && *min == 0 && !scalable {
		errs = append(errs, field.Forbidden(at,
			"must specify at least one Object or External metric to support scaling to zero replicas"))
	}
	return errs
}

func validateMetric(m *autoscalingv2.MetricSpec, at *field.Path, objects versions) field.ErrorList {
	var errs field.ErrorList
	types := []autoscalingv2.MetricSourceType{
		autoscalingv2.ContainerResourceMetricSourceType, autoscalingv2.ExternalMetricSourceType,
		autoscalingv2.ObjectMetricSourceType, autoscalingv2.PodsMetricSourceType,
		autoscalingv2.ResourceMetricSourceType,
	}
	if m.Type == "" {
		errs = append(errs, field.Required(at.Child("type"), "must specify a metric source type"))
	}
	errs = append(errs, checks.In(m.Type, at.Child("type"), types...)...)
	sources := []struct {
		kind  autoscalingv2.MetricSourceType
		name  string
		set   bool
		check func(*field.Path) field.ErrorList
	}{
		{autoscalingv2.ObjectMetricSourceType, "object", m.Object != nil,
			func(p *field.Path) field.ErrorList { return validateObject(m.Object, p, objects) }},
		{autoscalingv2.ExternalMetricSourceType, "external", m.External != nil,
			func(p *field.Path) field.ErrorList { return validateExternal(m.External, p) }},
		{autoscalingv2.PodsMetricSourceType, "pods", m.Pods != nil,
			func(p *field.Path) field.ErrorList { return validatePods(m.Pods, p) }},
		{autoscalingv2.ResourceMetricSourceType, "resource", m.Resource != nil,
			func(p *field.Path) field.ErrorList { return validateResource(m.Resource, p) }},
		{autoscalingv2.ContainerResourceMetricSourceType, "containerResource", m.ContainerResource != nil,
			func(p *field.Path) field.ErrorList { return validateContainerResource(m.ContainerResource, p) }},
	}
	present, missing, known := 0, "", false
	for _, s := range sources { // only the first that is there is looked into
		if s.set {
			if present++; present == 1 {
				errs = append(errs, s.check(at.Child(s.name))...)
			}
		}
		if s.kind == m.Type {
			known = true
			if !s.set {
				missing = s.name
			}
		}
	}
	if missing != "" {
		errs = append(errs, field.Required(at.Child(missing), "must populate information for the given metric source"))
	}
	if !known { // is told once more, as upstream does
		errs = append(errs, checks.In(m.Type, at.Child("type"), types...)...)
	}
	if present == 1 {
		return errs
	}
	for _, s := range sources {
		if s.set && s.kind != m.Type {
			errs = append(errs, field.Forbidden(at.Child(s.name), "must populate the given metric source only"))
		}
	}
	return errs
}

func validateObject(s *autoscalingv2.ObjectMetricSource, at *field.Path, objects versions) field.ErrorList {
	errs := validateRef(s.DescribedObject, at.Child("describedObject"), objects)
	errs = append(errs, validateIdentifier(s.Metric, at.Child("metric"))...)
	errs = append(errs, validateTarget(s.Target, at.Child("target"))...)
	if s.Target.Value == nil && s.Target.AverageValue == nil {
		errs = append(errs, field.Required(at.Child("target", "averageValue"),
			"must set either a target value or averageValue"))
	}
	return errs
}

func validateExternal(s *autoscalingv2.ExternalMetricSource, at *field.Path) field.ErrorList {
	errs := validateIdentifier(s.Metric, at.Child("metric"))
	errs = append(errs, validateTarget(s.Target, at.Child("target"))...)
	if s.Target.Value == nil && s.Target.AverageValue == nil {
		errs = append(errs, field.Required(at.Child("target", "averageValue"),
			"must set either a target value for metric or a per-pod target"))
	}
	if s.Target.Value != nil && s.Target.AverageValue != nil {
		errs = append(errs, field.Forbidden(at.Child("target", "value"),
			"may not set both a target value for metric and a per-pod target"))
	}
	return errs
}

func validatePods(s *autoscalingv2.PodsMetricSource, at *field.Path) field.ErrorList {
	errs := validateIdentifier(s.Metric, at.Child("metric"))
	errs = append(errs, validateTarget(s.Target, at.Child("target"))...)
	if s.Target.AverageValue == nil {
		errs = append(errs, field.Required(at.Child("target", "averageValue"),
			"must specify a positive target averageValue"))
	}
	return errs
}

func validateResource(s *autoscalingv2.ResourceMetricSource, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.Name == "" {
		errs = append(errs, field.Required(at.Child("name"), "must specify a resource name"))
	}
	return append(errs, validateShare(s.Target, at.Child("target"))...)
}

func validateContainerResource(s *autoscalingv2.ContainerResourceMetricSource, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.Name == "" {
		errs = append(errs, field.Required(at.Child("name"), "must specify a resource name"))
	} else {
		errs = append(errs, podspec.ContainerResource(s.Name, at.Child("name"))...)
	}
	if s.Container == "" {
		errs = append(errs, field.Required(at.Child("container"), "must specify a container"))
	} else {
		errs = append(errs, checks.Text(s.Container, at.Child("container"), utilvalidation.IsDNS1123Label)...)
	}
	return append(errs, validateShare(s.Target, at.Child("target"))...)
}

func validateShare(t autoscalingv2.MetricTarget, at *field.Path) field.ErrorList {
	errs := validateTarget(t, at)
	if t.AverageUtilization == nil && t.AverageValue == nil {
		errs = append(errs, field.Required(at.Child("averageUtilization"),
			"must set either a target raw value or a target utilization"))
	}
	if t.AverageUtilization != nil && t.AverageValue != nil {
		errs = append(errs, field.Forbidden(at.Child("averageValue"),
			"may not set both a target raw value and a target utilization"))
	}
	return errs
}

func validateTarget(t autoscalingv2.MetricTarget, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if t.Type == "" {
		errs = append(errs, field.Required(at.Child("type"), "must specify a metric target type"))
	}
	switch t.Type {
	case autoscalingv2.UtilizationMetricType, autoscalingv2.ValueMetricType, autoscalingv2.AverageValueMetricType:
	default:
		errs = append(errs, field.Invalid(at.Child("type"), t.Type,
			"must be either Utilization, Value, or AverageValue"))
	}
	if t.Value != nil && t.Value.Sign() != 1 {
		errs = append(errs, field.Invalid(at.Child("value"), t.Value, "must be positive"))
	}
	if t.AverageValue != nil && t.AverageValue.Sign() != 1 {
		errs = append(errs, field.Invalid(at.Child("averageValue"), t.AverageValue, "must be positive"))
	}
	if t.AverageUtilization != nil && *t.AverageUtilization < 1 {
		errs = append(errs, field.Invalid(at.Child("averageUtilization"), t.AverageUtilization,
			"must be greater than 0"))
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
	return errs
}
