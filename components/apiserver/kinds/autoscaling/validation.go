package autoscaling

import (
	"errors"
	"fmt"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/validation/path"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Bounds of scaling behavior, in seconds.
const (
	maxPeriod = 1800
	maxWindow = 3600
)

// Rules are what can be chosen of how autoscalers are checked. The zero value is that of the release.
type Rules struct {
	ToZero bool // minReplicas may be 0
}

// Validate checks a new autoscaler.
func (r Rules) Validate(h *autoscalingv2.HorizontalPodAutoscaler) field.ErrorList {
	return r.validate(h, nil)
}

// ValidateUpdate checks a change. What an older server took may stay as it is.
func (r Rules) ValidateUpdate(new, old *autoscalingv2.HorizontalPodAutoscaler) field.ErrorList {
	return r.validate(new, old)
}

func (r Rules) validate(h, old *autoscalingv2.HorizontalPodAutoscaler) field.ErrorList {
	var errs field.ErrorList
	at, s := field.NewPath("spec"), &h.Spec
	least := int32(1)
	if r.ToZero || old != nil && old.Spec.MinReplicas != nil && *old.Spec.MinReplicas == 0 {
		least = 0
	}
	if s.MinReplicas != nil && *s.MinReplicas < least {
		errs = append(errs, field.Invalid(at.Child("minReplicas"), *s.MinReplicas,
			fmt.Sprintf("must be greater than or equal to %d", least)))
	}
	if s.MaxReplicas == 0 {
		errs = append(errs, field.Required(at.Child("maxReplicas"), "must be set and greater than 0"))
	} else if s.MaxReplicas < 0 {
		errs = append(errs, field.Invalid(at.Child("maxReplicas"), s.MaxReplicas, "must be greater than or equal to 1"))
	}
	if s.MinReplicas != nil && s.MaxReplicas < *s.MinReplicas {
		errs = append(errs, field.Invalid(at.Child("maxReplicas"), s.MaxReplicas,
			"must be greater than or equal to `minReplicas`"))
	}
	errs = append(errs, validateRef(s.ScaleTargetRef, at.Child("scaleTargetRef"), targetVersions(h, old))...)
	errs = append(errs, validateMetrics(s.Metrics, at.Child("metrics"), s.MinReplicas, objectVersions(old))...)
	if s.Behavior != nil {
		errs = append(errs, validateRules(s.Behavior.ScaleUp, at.Child("behavior", "scaleUp"))...)
		errs = append(errs, validateRules(s.Behavior.ScaleDown, at.Child("behavior", "scaleDown"))...)
	}
	return errs
}

// versions is what a reference may have as its apiVersion.
type versions int

const (
	grouped   versions = iota // one with a group
	ungrouped                 // one with or without a group
	anything                  // anything at all
)

func targetVersions(h, old *autoscalingv2.HorizontalPodAutoscaler) versions {
	is := h.Spec.ScaleTargetRef
	switch {
	case old != nil && old.Spec.ScaleTargetRef.APIVersion == is.APIVersion && old.Spec.ScaleTargetRef.Kind == is.Kind:
		return anything
	case is.Kind == "ReplicationController": // the only kind without a group that scales
		return ungrouped
	}
	return grouped
}

func objectVersions(old *autoscalingv2.HorizontalPodAutoscaler) versions {
	if old == nil {
		return ungrouped
	}
	for _, m := range old.Spec.Metrics {
		if m.Object != nil && m.Type == autoscalingv2.ObjectMetricSourceType &&
			ungrouped.check(m.Object.DescribedObject.APIVersion) != nil {
			return anything
		}
	}
	return ungrouped
}

func (v versions) check(version string) error {
	if v == anything {
		return nil
	}
	gv, err := schema.ParseGroupVersion(version)
	if err == nil && v == grouped && gv.Group == "" {
		err = errors.New("apiVersion must specify API group")
	}
	return err
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

func validateRef(r autoscalingv2.CrossVersionObjectReference, at *field.Path, allowed versions) field.ErrorList {
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
	if err := allowed.check(r.APIVersion); err != nil {
		errs = append(errs, field.Invalid(at.Child("apiVersion"), r.APIVersion, err.Error()))
	}
	return errs
}

func validateRules(r *autoscalingv2.HPAScalingRules, at *field.Path) field.ErrorList {
	if r == nil {
		return nil
	}
	var errs field.ErrorList
	if w := r.StabilizationWindowSeconds; w != nil {
		if *w < 0 {
			errs = append(errs, field.Invalid(at.Child("stabilizationWindowSeconds"), *w,
				"must be greater than or equal to zero"))
		}
		if *w > maxWindow {
			errs = append(errs, field.Invalid(at.Child("stabilizationWindowSeconds"), *w,
				"must be less than or equal to 3600"))
		}
	}
	if p := r.SelectPolicy; p != nil {
		switch *p {
		case autoscalingv2.MaxChangePolicySelect, autoscalingv2.MinChangePolicySelect,
			autoscalingv2.DisabledPolicySelect:
		default:
			errs = append(errs, field.NotSupported(at.Child("selectPolicy"), *p, []autoscalingv2.ScalingPolicySelect{
				autoscalingv2.DisabledPolicySelect, autoscalingv2.MaxChangePolicySelect,
				autoscalingv2.MinChangePolicySelect}))
		}
	}
	if len(r.Policies) == 0 {
		errs = append(errs, field.Required(at.Child("policies"), "must specify at least one Policy"))
	}
	for i, p := range r.Policies {
		q := at.Child("policies").Index(i)
		if p.Type != autoscalingv2.PodsScalingPolicy && p.Type != autoscalingv2.PercentScalingPolicy {
			errs = append(errs, field.NotSupported(q.Child("type"), p.Type,
				[]autoscalingv2.HPAScalingPolicyType{autoscalingv2.PercentScalingPolicy,
					autoscalingv2.PodsScalingPolicy}))
		}
		if p.Value <= 0 {
			errs = append(errs, field.Invalid(q.Child("value"), p.Value, "must be greater than zero"))
		}
		if p.PeriodSeconds <= 0 {
			errs = append(errs, field.Invalid(q.Child("periodSeconds"), p.PeriodSeconds, "must be greater than zero"))
		}
		if p.PeriodSeconds > maxPeriod {
			errs = append(errs, field.Invalid(q.Child("periodSeconds"), p.PeriodSeconds,
				"must be less than or equal to 1800"))
		}
	}
	if r.Tolerance != nil && r.Tolerance.Sign() < 0 {
		errs = append(errs, field.Invalid(at.Child("tolerance"), r.Tolerance.String(),
			"must be greater than or equal to 0"))
	}
	return errs
}
