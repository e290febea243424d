package apps

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
	"quintet.dev/quintet/components/apiserver/kinds/podspec"
)

var daemonSelection = selection{kind: "daemonset", pods: "DaemonSet"}

// ValidateDaemonSet checks a daemon set.
func (r Rules) ValidateDaemonSet(d *appsv1.DaemonSet) field.ErrorList {
	return r.validateDaemonSet(&d.Spec, nil, daemonSelection)
}

func (r Rules) validateDaemonSet(s *appsv1.DaemonSetSpec, old *corev1.PodTemplateSpec, pods selection) field.ErrorList {
	path := field.NewPath("spec")
	selector, errs := pods.selector(s.Selector, path.Child("selector"))
	errs = append(errs, r.endless(pods, &s.Template, old, selector, path.Child("template"))...)
	errs = append(errs, checks.NonNegative(int64(s.MinReadySeconds), path.Child("minReadySeconds"))...)
	at := path.Child("updateStrategy")
	switch s.UpdateStrategy.Type {
	case appsv1.OnDeleteDaemonSetStrategyType:
	case appsv1.RollingUpdateDaemonSetStrategyType:
		if s.UpdateStrategy.RollingUpdate == nil {
			errs = append(errs, field.Required(at.Child("rollingUpdate"), ""))
		} else {
			errs = append(errs, validateDaemonRolling(s.UpdateStrategy.RollingUpdate, at.Child("rollingUpdate"))...)
		}
	default:
		errs = append(errs, field.NotSupported(at, checks.Unversioned(s.UpdateStrategy),
			[]appsv1.DaemonSetUpdateStrategyType{
				appsv1.RollingUpdateDaemonSetStrategyType, appsv1.OnDeleteDaemonSetStrategyType}))
	}
	if l := s.RevisionHistoryLimit; l != nil {
		errs = append(errs, checks.NonNegative(int64(*l), path.Child("revisionHistoryLimit"))...)
	}
	return errs
}

func validateDaemonRolling(r *appsv1.RollingUpdateDaemonSet, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if r.MaxUnavailable != nil {
		errs = append(errs, checks.IntOrPercent(*r.MaxUnavailable, path.Child("maxUnavailable"))...)
	}
	if r.MaxSurge != nil {
		errs = append(errs, checks.IntOrPercent(*r.MaxSurge, path.Child("maxSurge"))...)
	}
	if r.MaxUnavailable != nil {
		errs = append(errs, checks.AtMostAll(*r.MaxUnavailable, path.Child("maxUnavailable"))...)
	}
	if r.MaxSurge != nil {
		errs = append(errs, checks.AtMostAll(*r.MaxSurge, path.Child("maxSurge"))...)
	}
	unavailable, surge := checks.IsSome(r.MaxUnavailable), checks.IsSome(r.MaxSurge)
	switch {
	case unavailable && surge:
		errs = append(errs, field.Invalid(path.Child("maxSurge"), r.MaxSurge,
			"may not be set when maxUnavailable is non-zero"))
	case !unavailable && !surge:
		errs = append(errs, field.Required(path.Child("maxUnavailable"), "cannot be 0 when maxSurge is 0"))
	}
	return errs
}

// ValidateDaemonSetUpdate checks a change: the selector stays, even one with values that no label has. Where it has
// such, or the affinity of the template, both may.
func (r Rules) ValidateDaemonSetUpdate(new, old *appsv1.DaemonSet) field.ErrorList {
	errs := validation.ValidateImmutableField(new.Spec.Selector, old.Spec.Selector, field.NewPath("spec", "selector"))
	pods := daemonSelection
	kept := metavalidation.LabelSelectorHasInvalidLabelValue(old.Spec.Selector) ||
		podspec.HadBadSelectors(&old.Spec.Template)
	pods.options.AllowInvalidLabelValueInSelector, r.Pods.KeptSelectors = kept, kept
	return append(errs, r.validateDaemonSet(&new.Spec, &old.Spec.Template, pods)...)
}

// ValidateDaemonSetStatus checks a change of the status.
func ValidateDaemonSetStatus(new, old *appsv1.DaemonSet) field.ErrorList {
	path, s := field.NewPath("status"), &new.Status
	errs := checks.Counts(path,
		checks.Count{Name: "currentNumberScheduled", Value: s.CurrentNumberScheduled},
		checks.Count{Name: "numberMisscheduled", Value: s.NumberMisscheduled},
		checks.Count{Name: "desiredNumberScheduled", Value: s.DesiredNumberScheduled},
		checks.Count{Name: "numberReady", Value: s.NumberReady},
	)
	errs = append(errs, checks.NonNegative(s.ObservedGeneration, path.Child("observedGeneration"))...)
	errs = append(errs, checks.Counts(path,
		checks.Count{Name: "updatedNumberScheduled", Value: s.UpdatedNumberScheduled},
		checks.Count{Name: "numberAvailable", Value: s.NumberAvailable},
		checks.Count{Name: "numberUnavailable", Value: s.NumberUnavailable},
	)...)
	errs = append(errs, checks.OptionalCount(s.CollisionCount, path.Child("collisionCount"))...)
	return append(errs, checks.Collisions(s.CollisionCount, old.Status.CollisionCount, path.Child("collisionCount"))...)
}
