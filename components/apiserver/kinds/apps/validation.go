package apps

import (
	"cmp"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
	"quintet.dev/quintet/components/apiserver/kinds/podspec"
)

var replicaSelection = selection{kind: "deployment", pods: "ReplicaSet", required: true,
	detail: "invalid label selector"}

// Rules check, as far as that is for each server to say.
type Rules struct{ Pods podspec.Rules }

// ValidateDeployment checks a deployment.
func (r Rules) ValidateDeployment(d *appsv1.Deployment) field.ErrorList {
	return r.validateDeployment(d, nil)
}

func (r Rules) validateDeployment(d *appsv1.Deployment, old *corev1.PodTemplateSpec) field.ErrorList {
	path, s := field.NewPath("spec"), &d.Spec
	var errs field.ErrorList
	if s.Replicas != nil {
		errs = append(errs, checks.NonNegative(int64(*s.Replicas), path.Child("replicas"))...)
	}
	selector, more := replicaSelection.selector(s.Selector, path.Child("selector"))
	errs = append(errs, more...)
	if selector != nil {
		errs = append(errs, r.endless(replicaSelection, &s.Template, old, selector, path.Child("template"))...)
	}
	errs = append(errs, validateStrategy(&s.Strategy, path.Child("strategy"))...)
	errs = append(errs, checks.NonNegative(int64(s.MinReadySeconds), path.Child("minReadySeconds"))...)
	if l := s.RevisionHistoryLimit; l != nil {
		errs = append(errs, checks.NonNegative(int64(*l), path.Child("revisionHistoryLimit"))...)
	}
	if n, err := strconv.ParseInt(d.Annotations[appsv1.DeprecatedRollbackTo], 10, 64); err == nil {
		errs = append(errs, checks.NonNegative(n, path.Child("rollback", "version"))...)
	}
	if p := s.ProgressDeadlineSeconds; p != nil {
		errs = append(errs, checks.NonNegative(int64(*p), path.Child("progressDeadlineSeconds"))...)
		if *p <= s.MinReadySeconds {
			errs = append(errs, field.Invalid(path.Child("progressDeadlineSeconds"), *p,
				"must be greater than minReadySeconds"))
		}
	}
	return errs
}

// ValidateDeploymentUpdate checks a change: the selector stays.
func (r Rules) ValidateDeploymentUpdate(new, old *appsv1.Deployment) field.ErrorList {
	return append(r.validateDeployment(new, &old.Spec.Template),
		validation.ValidateImmutableField(new.Spec.Selector, old.Spec.Selector, field.NewPath("spec", "selector"))...)
}

func validateStrategy(s *appsv1.DeploymentStrategy, path *field.Path) field.ErrorList {
	switch s.Type {
	case appsv1.RecreateDeploymentStrategyType:
		if s.RollingUpdate != nil {
			return field.ErrorList{field.Forbidden(path.Child("rollingUpdate"),
				"may not be specified when strategy `type` is '"+string(appsv1.RecreateDeploymentStrategyType)+"'")}
		}
		return nil
	case appsv1.RollingUpdateDeploymentStrategyType:
		if s.RollingUpdate == nil {
			return field.ErrorList{field.Required(path.Child("rollingUpdate"),
				"this should be defaulted and never be nil")}
		}
		return validateRolling(s.RollingUpdate, path.Child("rollingUpdate"))
	}
	shown := *s
	if r := s.RollingUpdate; r != nil { // which is shown with zeros for what it leaves out
		shown.RollingUpdate = &appsv1.RollingUpdateDeployment{
			MaxUnavailable: cmp.Or(r.MaxUnavailable, &intstr.IntOrString{}),
			MaxSurge:       cmp.Or(r.MaxSurge, &intstr.IntOrString{}),
		}
	}
	return field.ErrorList{field.NotSupported(path, checks.Unversioned(shown), []appsv1.DeploymentStrategyType{
		appsv1.RecreateDeploymentStrategyType, appsv1.RollingUpdateDeploymentStrategyType})}
}

func validateRolling(r *appsv1.RollingUpdateDeployment, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if r.MaxUnavailable != nil {
		errs = append(errs, checks.IntOrPercent(*r.MaxUnavailable, path.Child("maxUnavailable"))...)
	}
	if r.MaxSurge != nil {
		errs = append(errs, checks.IntOrPercent(*r.MaxSurge, path.Child("maxSurge"))...)
	}
	if checks.IsZero(r.MaxUnavailable) && checks.IsZero(r.MaxSurge) {
		errs = append(errs, field.Invalid(path.Child("maxUnavailable"), r.MaxUnavailable,
			"may not be 0 when `maxSurge` is 0"))
	}
	if r.MaxUnavailable != nil {
		errs = append(errs, checks.AtMostAll(*r.MaxUnavailable, path.Child("maxUnavailable"))...)
	}
	return errs
}

// ValidateDeploymentStatus checks a change of the status.
func ValidateDeploymentStatus(new, old *appsv1.Deployment) field.ErrorList {
	path, s := field.NewPath("status"), &new.Status
	errs := checks.NonNegative(s.ObservedGeneration, path.Child("observedGeneration"))
	errs = append(errs, checks.Counts(path,
		checks.Count{Name: "replicas", Value: s.Replicas},
		checks.Count{Name: "updatedReplicas", Value: s.UpdatedReplicas},
		checks.Count{Name: "readyReplicas", Value: s.ReadyReplicas},
		checks.Count{Name: "availableReplicas", Value: s.AvailableReplicas},
		checks.Count{Name: "unavailableReplicas", Value: s.UnavailableReplicas},
	)...)
	errs = append(errs, checks.OptionalCount(s.TerminatingReplicas, path.Child("terminatingReplicas"))...)
	errs = append(errs, checks.OptionalCount(s.CollisionCount, path.Child("collisionCount"))...)
	errs = append(errs, checks.Limits(path,
		checks.Limit{Name: "updatedReplicas", Value: s.UpdatedReplicas, Max: s.Replicas, MaxName: "status.replicas"},
		checks.Limit{Name: "readyReplicas", Value: s.ReadyReplicas, Max: s.Replicas, MaxName: "status.replicas"},
		checks.Limit{Name: "availableReplicas", Value: s.AvailableReplicas, Max: s.Replicas,
			MaxName: "status.replicas"},
		checks.Limit{Name: "availableReplicas", Value: s.AvailableReplicas, Max: s.ReadyReplicas,
			MaxName: "readyReplicas"},
	)...)
	return append(errs, checks.Collisions(s.CollisionCount, old.Status.CollisionCount, path.Child("collisionCount"))...)
}

// ValidateReplicaSet checks a replica set.
func (r Rules) ValidateReplicaSet(set *appsv1.ReplicaSet) field.ErrorList {
	return r.validateReplicaSet(&set.Spec, nil)
}

func (r Rules) validateReplicaSet(s *appsv1.ReplicaSetSpec, old *corev1.PodTemplateSpec) field.ErrorList {
	path := field.NewPath("spec")
	var errs field.ErrorList
	if s.Replicas != nil {
		errs = append(errs, checks.NonNegative(int64(*s.Replicas), path.Child("replicas"))...)
	}
	errs = append(errs, checks.NonNegative(int64(s.MinReadySeconds), path.Child("minReadySeconds"))...)
	selector, more := replicaSelection.selector(s.Selector, path.Child("selector"))
	errs = append(errs, more...)
	if selector != nil {
		errs = append(errs, r.endless(replicaSelection, &s.Template, old, selector, path.Child("template"))...)
	}
	return errs
}

// ValidateReplicaSetUpdate checks a change: the selector stays.
func (r Rules) ValidateReplicaSetUpdate(new, old *appsv1.ReplicaSet) field.ErrorList {
	return append(r.validateReplicaSet(&new.Spec, &old.Spec.Template),
		validation.ValidateImmutableField(new.Spec.Selector, old.Spec.Selector, field.NewPath("spec", "selector"))...)
}

// ValidateReplicaSetStatus checks a change of the status.
func ValidateReplicaSetStatus(new, _ *appsv1.ReplicaSet) field.ErrorList {
	path, s := field.NewPath("status"), &new.Status
	errs := checks.Counts(path,
		checks.Count{Name: "replicas", Value: s.Replicas},
		checks.Count{Name: "fullyLabeledReplicas", Value: s.FullyLabeledReplicas},
		checks.Count{Name: "readyReplicas", Value: s.ReadyReplicas},
		checks.Count{Name: "availableReplicas", Value: s.AvailableReplicas},
	)
	errs = append(errs, checks.NonNegative(s.ObservedGeneration, path.Child("observedGeneration"))...)
	errs = append(errs, checks.OptionalCount(s.TerminatingReplicas, path.Child("terminatingReplicas"))...)
	return append(errs, checks.Limits(path,
		checks.Limit{Name: "fullyLabeledReplicas", Value: s.FullyLabeledReplicas, Max: s.Replicas,
			MaxName: "status.replicas"},
		checks.Limit{Name: "readyReplicas", Value: s.ReadyReplicas, Max: s.Replicas, MaxName: "status.replicas"},
		checks.Limit{Name: "availableReplicas", Value: s.AvailableReplicas, Max: s.Replicas,
			MaxName: "status.replicas"},
		checks.Limit{Name: "availableReplicas", Value: s.AvailableReplicas, Max: s.ReadyReplicas,
			MaxName: "readyReplicas"},
	)...)
}
