package apps

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
	"quintet.dev/quintet/components/apiserver/kinds/podspec"
)

var statefulSelection = selection{kind: "statefulset", pods: "StatefulSet", required: true}

// ValidateStatefulSet checks a stateful set.
func (r Rules) ValidateStatefulSet(s *appsv1.StatefulSet) field.ErrorList {
	return r.validateStatefulSet(&s.Spec, nil)
}

// validateStatefulSet checks a set; old is what it was before, itself to see whether that is valid still, and nil if it
// is new.
func (r Rules) validateStatefulSet(s, old *appsv1.StatefulSetSpec) field.ErrorList {
	path := field.NewPath("spec")
	errs := validateManagement(s.PodManagementPolicy, path.Child("podManagementPolicy"))
	errs = append(errs, validateStatefulUpdate(&s.UpdateStrategy, path.Child("updateStrategy"))...)
	if p := s.PersistentVolumeClaimRetentionPolicy; p != nil {
		at := path.Child("persistentVolumeClaimRetentionPolicy")
		errs = append(errs, validateRetention(p.WhenDeleted, at.Child("whenDeleted"))...)
		errs = append(errs, validateRetention(p.WhenScaled, at.Child("whenScaled"))...)
	}
	if old == nil { // they stay as they are
		for i := range s.VolumeClaimTemplates {
			at := path.Child("volumeClaimTemplates").Index(i).Child("spec")
			errs = append(errs, podspec.ClaimSpec(&s.VolumeClaimTemplates[i].Spec, at)...)
		}
	}
	if s.Replicas != nil {
		errs = append(errs, checks.NonNegative(int64(*s.Replicas), path.Child("replicas"))...)
	}
	errs = append(errs, checks.NonNegative(int64(s.MinReadySeconds), path.Child("minReadySeconds"))...)
	if o := s.Ordinals; o != nil {
		errs = append(errs, checks.NonNegative(int64(o.Start), path.Child("ordinals", "start"))...)
	}
	if s.ServiceName != "" && old == nil {
		errs = append(errs, checks.Text(s.ServiceName, path.Child("serviceName"), utilvalidation.IsDNS1123Label)...)
	}
	selector, faults := statefulSelection.selector(s.Selector, path.Child("selector"))
	errs = append(errs, faults...)
	template := path.Child("template")
	if selector != nil {
		var was *corev1.PodTemplateSpec
		if old != nil {
			was = &old.Template
		}
		t := podTemplate(s)
		errs = append(errs, podspec.ValidateFound(t, selector, template)...)
		more := r.Pods.ValidateTemplate(t, was, template)
		if len(more) > 0 && old != nil && old != s && len(r.validateStatefulSet(old, old)) > 0 {
			more = nil // a set that has become invalid can still be scaled or repaired
		}
		errs = append(errs, more...)
		errs = append(errs, podspec.ValidateTemplateMeta(t, was, template)...)
	}
	return append(errs, podspec.ValidateEndless(&s.Template.Spec, statefulSelection.pods, template.Child("spec"))...)
}

// podTemplate is the template as pods are made of it: with the volumes of their claims, and names that come from the
// set.
func podTemplate(s *appsv1.StatefulSetSpec) *corev1.PodTemplateSpec {
	t := s.Template.DeepCopy()
	t.Spec.Hostname, t.Spec.Subdomain = "", ""
	var volumes []corev1.Volume
	for i := range s.VolumeClaimTemplates {
		name := s.VolumeClaimTemplates[i].Name
		if slices.ContainsFunc(volumes, func(v corev1.Volume) bool { return v.Name == name }) {
			continue
		}
		volumes = append(volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
		}})
	}
	claims := len(volumes)
	for _, v := range t.Spec.Volumes {
		if !slices.ContainsFunc(volumes[:claims], func(c corev1.Volume) bool { return c.Name == v.Name }) {
			volumes = append(volumes, v)
		}
	}
	t.Spec.Volumes = volumes
	return t
}

func validateManagement(p appsv1.PodManagementPolicyType, at *field.Path) field.ErrorList {
	switch p {
	case appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement:
		return nil
	case "":
		return field.ErrorList{field.Required(at, "")}
	}
	return field.ErrorList{field.Invalid(at, p, "must be 'OrderedReady' or 'Parallel'")}
}

func validateStatefulUpdate(u *appsv1.StatefulSetUpdateStrategy, at *field.Path) field.ErrorList {
	switch u.Type {
	case "":
		return field.ErrorList{field.Required(at, "")}
	case appsv1.OnDeleteStatefulSetStrategyType:
		if u.RollingUpdate != nil {
			return field.ErrorList{field.Invalid(at.Child("rollingUpdate"), checks.Unversioned(u.RollingUpdate),
				"only allowed for updateStrategy 'RollingUpdate'")}
		}
		return nil
	case appsv1.RollingUpdateStatefulSetStrategyType:
		if u.RollingUpdate == nil {
			return nil
		}
		return validateStatefulRolling(u.RollingUpdate, at.Child("rollingUpdate"))
	}
	return field.ErrorList{field.Invalid(at, checks.Unversioned(u), "must be 'RollingUpdate' or 'OnDelete'")}
}

func validateStatefulRolling(r *appsv1.RollingUpdateStatefulSetStrategy, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if r.Partition != nil {
		errs = append(errs, checks.NonNegative(int64(*r.Partition), at.Child("partition"))...)
	}
	if r.MaxUnavailable == nil {
		return errs
	}
	unavailable := at.Child("maxUnavailable")
	errs = append(errs, checks.IntOrPercent(*r.MaxUnavailable, unavailable)...)
	if checks.IsZero(r.MaxUnavailable) {
		errs = append(errs, field.Invalid(unavailable, *r.MaxUnavailable, "cannot be 0"))
	}
	return append(errs, checks.AtMostAll(*r.MaxUnavailable, unavailable)...)
}

func validateRetention(p appsv1.PersistentVolumeClaimRetentionPolicyType, at *field.Path) field.ErrorList {
	known := []appsv1.PersistentVolumeClaimRetentionPolicyType{
		appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType}
	if slices.Contains(known, p) {
		return nil
	}
	return field.ErrorList{field.NotSupported(at, p, known)}
}

// ValidateStatefulSetUpdate checks a change: only some of the spec may change.
func (r Rules) ValidateStatefulSetUpdate(new, old *appsv1.StatefulSet) field.ErrorList {
	errs := r.validateStatefulSet(&new.Spec, &old.Spec)
	rest := new.Spec
	rest.Replicas, rest.Ordinals, rest.Template = old.Spec.Replicas, old.Spec.Ordinals, old.Spec.Template
	rest.UpdateStrategy, rest.MinReadySeconds = old.Spec.UpdateStrategy, old.Spec.MinReadySeconds
	rest.PersistentVolumeClaimRetentionPolicy = old.Spec.PersistentVolumeClaimRetentionPolicy
	rest.RevisionHistoryLimit = old.Spec.RevisionHistoryLimit
	if !apiequality.Semantic.DeepEqual(rest, old.Spec) {
		errs = append(errs, field.Forbidden(field.NewPath("spec"),
			"updates to statefulset spec for fields other than 'replicas', "+
				"'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and "+
				"'minReadySeconds' are forbidden"))
	}
	return errs
}

// ValidateStatefulSetStatus checks a change of the status.
func ValidateStatefulSetStatus(set *appsv1.StatefulSet) field.ErrorList {
	path, s := field.NewPath("status"), &set.Status
	errs := checks.Counts(path,
		checks.Count{Name: "replicas", Value: s.Replicas},
		checks.Count{Name: "readyReplicas", Value: s.ReadyReplicas},
		checks.Count{Name: "currentReplicas", Value: s.CurrentReplicas},
		checks.Count{Name: "updatedReplicas", Value: s.UpdatedReplicas},
		checks.Count{Name: "availableReplicas", Value: s.AvailableReplicas},
	)
	errs = append(errs, checks.NonNegative(s.ObservedGeneration, path.Child("observedGeneration"))...)
	errs = append(errs, checks.OptionalCount(s.CollisionCount, path.Child("collisionCount"))...)
	return append(errs, checks.Limits(path,
		checks.Limit{Name: "readyReplicas", Value: s.ReadyReplicas, Max: s.Replicas, MaxName: "status.replicas"},
		checks.Limit{Name: "currentReplicas", Value: s.CurrentReplicas, Max: s.Replicas, MaxName: "status.replicas"},
		checks.Limit{Name: "updatedReplicas", Value: s.UpdatedReplicas, Max: s.Replicas, MaxName: "status.replicas"},
		checks.Limit{Name: "availableReplicas", Value: s.AvailableReplicas, Max: s.Replicas,
			MaxName: "status.replicas"},
		checks.Limit{Name: "availableReplicas", Value: s.AvailableReplicas, Max: s.ReadyReplicas,
			MaxName: "status.readyReplicas"},
	)...)
}

// ValidateStatefulSetStatusChange checks what of a status only grows.
func ValidateStatefulSetStatusChange(new, old *appsv1.StatefulSet) field.ErrorList {
	return checks.Collisions(new.Status.CollisionCount, old.Status.CollisionCount,
		field.NewPath("status", "collisionCount"))
}
