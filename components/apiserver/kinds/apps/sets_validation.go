package apps

import (
	"encoding/json"

	appsv1 "k8s.io/api/apps/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
	"quintet.dev/quintet/components/apiserver/kinds/podspec"
)

// ValidateDaemonSet checks a daemon set.
func ValidateDaemonSet(d *appsv1.DaemonSet) field.ErrorList {
	path, s := field.NewPath("spec"), &d.Spec
	selector, errs := checks.Selector(s.Selector, "daemonset", path.Child("selector"))
	if selector != nil {
		errs = append(errs, podspec.ValidateEndless(&s.Template, selector, "DaemonSet", path.Child("template"))...)
	}
	errs = append(errs, checks.NonNegative(int64(s.MinReadySeconds), path.Child("minReadySeconds"))...)
	if l := s.RevisionHistoryLimit; l != nil {
		errs = append(errs, checks.NonNegative(int64(*l), path.Child("revisionHistoryLimit"))...)
	}
	at := path.Child("updateStrategy")
	switch s.UpdateStrategy.Type {
	case appsv1.OnDeleteDaemonSetStrategyType:
	case appsv1.RollingUpdateDaemonSetStrategyType:
		if s.UpdateStrategy.RollingUpdate == nil {
			return append(errs, field.Required(at.Child("rollingUpdate"), ""))
		}
		errs = append(errs, validateDaemonRolling(s.UpdateStrategy.RollingUpdate, at.Child("rollingUpdate"))...)
	default:
		errs = append(errs, field.NotSupported(at, s.UpdateStrategy, []appsv1.DaemonSetUpdateStrategyType{
			appsv1.RollingUpdateDaemonSetStrategyType, appsv1.OnDeleteDaemonSetStrategyType}))
	}
	return errs
}

func validateDaemonRolling(r *appsv1.RollingUpdateDaemonSet, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if r.MaxUnavailable != nil {
		errs = append(errs, checks.IntOrPercent(*r.MaxUnavailable, path.Child("maxUnavailable"))...)
		errs = append(errs, checks.AtMostAll(*r.MaxUnavailable, path.Child("maxUnavailable"))...)
	}
	if r.MaxSurge != nil {
		errs = append(errs, checks.IntOrPercent(*r.MaxSurge, path.Child("maxSurge"))...)
		errs = append(errs, checks.AtMostAll(*r.MaxSurge, path.Child("maxSurge"))...)
	}
	unavailable, surge := !checks.IsZero(r.MaxUnavailable), !checks.IsZero(r.MaxSurge)
	switch {
	case unavailable && surge:
		errs = append(errs, field.Invalid(path.Child("maxSurge"), r.MaxSurge, "may not be set when maxUnavailable is non-zero"))
	case !unavailable && !surge:
		errs = append(errs, field.Required(path.Child("maxUnavailable"), "cannot be 0 when maxSurge is 0"))
	}
	return errs
}

// ValidateDaemonSetUpdate checks a change: the selector stays.
func ValidateDaemonSetUpdate(new, old *appsv1.DaemonSet) field.ErrorList {
	return append(ValidateDaemonSet(new),
		validation.ValidateImmutableField(new.Spec.Selector, old.Spec.Selector, field.NewPath("spec", "selector"))...)
}

// ValidateDaemonSetStatus checks a change of the status.
func ValidateDaemonSetStatus(new, old *appsv1.DaemonSet) field.ErrorList {
	path, s := field.NewPath("status"), &new.Status
	errs := checks.Counts(path,
		checks.Count{Name: "currentNumberScheduled", Value: s.CurrentNumberScheduled},
		checks.Count{Name: "numberMisscheduled", Value: s.NumberMisscheduled},
		checks.Count{Name: "desiredNumberScheduled", Value: s.DesiredNumberScheduled},
		checks.Count{Name: "numberReady", Value: s.NumberReady},
		checks.Count{Name: "updatedNumberScheduled", Value: s.UpdatedNumberScheduled},
		checks.Count{Name: "numberAvailable", Value: s.NumberAvailable},
		checks.Count{Name: "numberUnavailable", Value: s.NumberUnavailable},
	)
	errs = append(errs, checks.NonNegative(s.ObservedGeneration, path.Child("observedGeneration"))...)
	return append(errs, checks.Collisions(s.CollisionCount, old.Status.CollisionCount, path.Child("collisionCount"))...)
}

// ValidateStatefulSet checks a stateful set.
func ValidateStatefulSet(s *appsv1.StatefulSet) field.ErrorList {
	path, spec := field.NewPath("spec"), &s.Spec
	errs := checks.OneOf(spec.PodManagementPolicy, path.Child("podManagementPolicy"),
		appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement)
	update := path.Child("updateStrategy")
	switch spec.UpdateStrategy.Type {
	case "":
		errs = append(errs, field.Required(update, ""))
	case appsv1.OnDeleteStatefulSetStrategyType:
		if spec.UpdateStrategy.RollingUpdate != nil {
			errs = append(errs, field.Invalid(update.Child("rollingUpdate"), spec.UpdateStrategy.RollingUpdate,
				"only allowed for updateStrategy 'RollingUpdate'"))
		}
	case appsv1.RollingUpdateStatefulSetStrategyType:
		if r := spec.UpdateStrategy.RollingUpdate; r != nil {
			if r.Partition != nil {
				errs = append(errs, checks.NonNegative(int64(*r.Partition), update.Child("rollingUpdate", "partition"))...)
			}
			if r.MaxUnavailable != nil {
				at := update.Child("rollingUpdate", "maxUnavailable")
				errs = append(errs, checks.IntOrPercent(*r.MaxUnavailable, at)...)
				errs = append(errs, checks.AtMostAll(*r.MaxUnavailable, at)...)
				if checks.IsZero(r.MaxUnavailable) {
					errs = append(errs, field.Invalid(at, *r.MaxUnavailable, "cannot be 0"))
				}
			}
		}
	default:
		errs = append(errs, field.Invalid(update, spec.UpdateStrategy, "must be 'RollingUpdate' or 'OnDelete'"))
	}
	if p := spec.PersistentVolumeClaimRetentionPolicy; p != nil {
		at := path.Child("persistentVolumeClaimRetentionPolicy")
		for name, value := range map[string]appsv1.PersistentVolumeClaimRetentionPolicyType{"whenDeleted": p.WhenDeleted, "whenScaled": p.WhenScaled} {
			errs = append(errs, checks.OneOf(value, at.Child(name),
				appsv1.DeletePersistentVolumeClaimRetentionPolicyType, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)...)
		}
	}
	if spec.Replicas != nil {
		errs = append(errs, checks.NonNegative(int64(*spec.Replicas), path.Child("replicas"))...)
	}
	errs = append(errs, checks.NonNegative(int64(spec.MinReadySeconds), path.Child("minReadySeconds"))...)
	if o := spec.Ordinals; o != nil {
		errs = append(errs, checks.NonNegative(int64(o.Start), path.Child("ordinals", "start"))...)
	}
	selector, more := checks.Selector(spec.Selector, "statefulset", path.Child("selector"))
	errs = append(errs, more...)
	if selector != nil {
		t := spec.Template.DeepCopy()
		addClaimVolumes(t, spec.VolumeClaimTemplates)
		errs = append(errs, podspec.ValidateEndless(t, selector, "StatefulSet", path.Child("template"))...)
	}
	return errs
}

// ValidateStatefulSetUpdate checks a change: only some of the spec may change.
func ValidateStatefulSetUpdate(new, old *appsv1.StatefulSet) field.ErrorList {
	errs := ValidateStatefulSet(new)
	rest := new.Spec
	rest.Replicas, rest.Ordinals, rest.Template = old.Spec.Replicas, old.Spec.Ordinals, old.Spec.Template
	rest.UpdateStrategy, rest.MinReadySeconds = old.Spec.UpdateStrategy, old.Spec.MinReadySeconds
	rest.PersistentVolumeClaimRetentionPolicy = old.Spec.PersistentVolumeClaimRetentionPolicy
	rest.RevisionHistoryLimit = old.Spec.RevisionHistoryLimit
	if !apiequality.Semantic.DeepEqual(rest, old.Spec) {
		errs = append(errs, field.Forbidden(field.NewPath("spec"), "updates to statefulset spec for fields other than 'replicas', "+
			"'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"))
	}
	return errs
}

// ValidateStatefulSetStatus checks a change of the status.
func ValidateStatefulSetStatus(new, old *appsv1.StatefulSet) field.ErrorList {
	path, s := field.NewPath("status"), &new.Status
	errs := checks.Counts(path,
		checks.Count{Name: "replicas", Value: s.Replicas},
		checks.Count{Name: "readyReplicas", Value: s.ReadyReplicas, Max: &s.Replicas, MaxName: "status.replicas"},
		checks.Count{Name: "currentReplicas", Value: s.CurrentReplicas, Max: &s.Replicas, MaxName: "status.replicas"},
		checks.Count{Name: "updatedReplicas", Value: s.UpdatedReplicas, Max: &s.Replicas, MaxName: "status.replicas"},
		checks.Count{Name: "availableReplicas", Value: s.AvailableReplicas, Max: &s.Replicas, MaxName: "status.replicas"},
	)
	errs = append(errs, checks.NonNegative(s.ObservedGeneration, path.Child("observedGeneration"))...)
	return append(errs, checks.Collisions(s.CollisionCount, old.Status.CollisionCount, path.Child("collisionCount"))...)
}

// ValidateRevision checks a controller revision: its data is one JSON object.
func ValidateRevision(r *appsv1.ControllerRevision) field.ErrorList {
	var errs field.ErrorList
	if len(r.Data.Raw) == 0 && r.Data.Object == nil {
		errs = append(errs, field.Required(field.NewPath("data"), "data is mandatory"))
	} else if len(r.Data.Raw) > 0 {
		var object map[string]any
		if err := json.Unmarshal(r.Data.Raw, &object); err != nil {
			errs = append(errs, field.Invalid(field.NewPath("data"), "<value omitted>", "error parsing data as JSON: "+err.Error()))
		}
	}
	return append(errs, checks.NonNegative(r.Revision, field.NewPath("revision"))...)
}

// ValidateRevisionUpdate checks a change: the data stays.
func ValidateRevisionUpdate(new, old *appsv1.ControllerRevision) field.ErrorList {
	return append(ValidateRevision(new), validation.ValidateImmutableField(new.Data, old.Data, field.NewPath("data"))...)
}
