package podspec

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateTemplate checks a pod template; old is what it was before, nil if it is new.
func (r Rules) ValidateTemplate(t, old *corev1.PodTemplateSpec, path *field.Path) field.ErrorList {
	was := oldTemplateState(old)
	if was != nil && r.KeptSelectors {
		was.asked, was.found = badAffinity, badAffinity
	}
	errs := validateTemplateMeta(t, was, path)
	errs = append(errs, r.validateSpec(&t.Spec, was, nil, path.Child("spec"))...)
	errs = append(errs, validateProfilesAgree(t.Annotations, &t.Spec, path.Child("spec"))...)
	if len(t.Spec.EphemeralContainers) > 0 {
		errs = append(errs, field.Forbidden(path.Child("spec", "ephemeralContainers"),
			"ephemeral containers not allowed in pod template"))
	}
	return errs
}

// ValidateTemplateMeta checks the metadata of a pod template; old is what it was before, nil if it is new.
func ValidateTemplateMeta(t, old *corev1.PodTemplateSpec, path *field.Path) field.ErrorList {
	return validateTemplateMeta(t, oldTemplateState(old), path)
}

func validateTemplateMeta(t *corev1.PodTemplateSpec, old *oldState, path *field.Path) field.ErrorList {
	errs := metavalidation.ValidateLabels(t.Labels, path.Child("labels"))
	errs = append(errs, validation.ValidateAnnotations(t.Annotations, path.Child("annotations"))...)
	return append(errs, validateAnnotations(t.Annotations, &t.Spec, old, path.Child("annotations"))...)
}

// ValidateFound checks that a selector finds the pods of a template. An empty one was refused before.
func ValidateFound(t *corev1.PodTemplateSpec, selector labels.Selector, path *field.Path) field.ErrorList {
	if selector.Empty() || selector.Matches(labels.Set(t.Labels)) {
		return nil
	}
	return field.ErrorList{field.Invalid(path.Child("metadata", "labels"), t.Labels,
		"`selector` does not match template `labels`")}
}

// ValidateEndless checks the spec of pods that are meant to run for ever. kind is named in the error.
func ValidateEndless(s *corev1.PodSpec, kind string, path *field.Path) field.ErrorList {
	errs := supported(s.RestartPolicy, path.Child("restartPolicy"), corev1.RestartPolicyAlways)
	if s.ActiveDeadlineSeconds != nil {
		errs = append(errs, field.Forbidden(path.Child("activeDeadlineSeconds"),
			"activeDeadlineSeconds in "+kind+" is not Supported"))
	}
	return errs
}
