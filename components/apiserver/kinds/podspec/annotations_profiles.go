package podspec

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// appArmorKey is the annotation of former versions about a container.
func appArmorKey(container string) string {
	return corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix + container
}

func appArmorWarning(container string, meta *field.Path) string {
	return fmt.Sprintf(`%s: deprecated since v1.30; use the "appArmorProfile" field instead`,
		meta.Child("annotations").Key(appArmorKey(container)))
}

// wholeAppArmor is the profile of a pod's containers that have none of their own; nil is none.
func wholeAppArmor(s *corev1.PodSpec) *corev1.AppArmorProfile {
	if s.SecurityContext == nil {
		return nil
	}
	return s.SecurityContext.AppArmorProfile
}

func ownAppArmor(c *corev1.Container) *corev1.AppArmorProfile {
	if c.SecurityContext == nil {
		return nil
	}
	return c.SecurityContext.AppArmorProfile
}

// syncAppArmor sets the AppArmor fields of a new pod's containers from the older annotations, and warns of those that
// say what the pod doesn't say yet, or nothing that a field can say.
func syncAppArmor(p *corev1.Pod) []string {
	if isWindows(&p.Spec) {
		return nil
	}
	var warnings []string
	whole := wholeAppArmor(&p.Spec)
	eachContainer(&p.Spec, nil, func(c *corev1.Container, _ *field.Path) {
		annotation, ok := p.Annotations[appArmorKey(c.Name)]
		if !ok || ownAppArmor(c) != nil {
			return
		}
		profile := appArmorProfile(annotation)
		if len(validateAppArmor(profile, nil)) > 0 {
			profile = nil
		}
		if profile != nil && apiequality.Semantic.DeepEqual(profile, whole) {
			return
		}
		warnings = append(warnings, appArmorWarning(c.Name, field.NewPath("metadata")))
		if profile == nil {
			return
		}
		if c.SecurityContext == nil {
			c.SecurityContext = &corev1.SecurityContext{}
		}
		c.SecurityContext.AppArmorProfile = profile
	})
	return warnings
}

// appArmorProfile reads an annotation; nil is none, or none that can be used.
func appArmorProfile(annotation string) *corev1.AppArmorProfile {
	switch annotation {
	case corev1.DeprecatedAppArmorBetaProfileRuntimeDefault:
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}
	case corev1.DeprecatedAppArmorBetaProfileNameUnconfined:
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
	}
	name, local := strings.CutPrefix(annotation, corev1.DeprecatedAppArmorBetaProfileNamePrefix)
	if !local || name == "" {
		return nil
	}
	return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost, LocalhostProfile: &name}
}

// seccompProfile reads an annotation of former versions; nil is none.
func seccompProfile(annotation string) *corev1.SeccompProfile {
	switch annotation {
	case corev1.SeccompProfileRuntimeDefault, corev1.DeprecatedSeccompProfileDockerDefault:
		return &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	case corev1.SeccompProfileNameUnconfined:
		return &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}
	}
	name, local := strings.CutPrefix(annotation, corev1.SeccompLocalhostProfileNamePrefix)
	if !local {
		return nil
	}
	return &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeLocalhost, LocalhostProfile: &name}
}

// validateProfilesAgree checks that the fields for seccomp and AppArmor say what the annotations of former versions
// say.
func validateProfilesAgree(annotations map[string]string, s *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seccomp := func(p *corev1.SeccompProfile, key string, at *field.Path) {
		if annotation, ok := annotations[key]; ok && p != nil {
			errs = append(errs, agree("seccomp", annotation, string(p.Type), p.LocalhostProfile,
				at.Child("securityContext", "seccompProfile"))...)
		}
	}
	if s.SecurityContext != nil {
		seccomp(s.SecurityContext.SeccompProfile, corev1.SeccompPodAnnotationKey, path)
	}
	eachContainer(s, path, func(c *corev1.Container, at *field.Path) {
		if c.SecurityContext != nil {
			seccomp(c.SecurityContext.SeccompProfile, corev1.SeccompContainerAnnotationKeyPrefix+c.Name, at)
		}
	})
	if isWindows(s) {
		return errs
	}
	whole := wholeAppArmor(s)
	eachContainer(s, path, func(c *corev1.Container, at *field.Path) {
		p := ownAppArmor(c)
		if p == nil {
			p = whole
		}
		if annotation, ok := annotations[appArmorKey(c.Name)]; ok && p != nil {
			errs = append(errs, agree("apparmor", annotation, string(p.Type), p.LocalhostProfile,
				at.Child("securityContext", "appArmorProfile"))...)
		}
	})
	return errs
}

// agree compares an annotation with the field at a path. The types are called the same for seccomp and AppArmor, and
// both write a profile of the node's after the same prefix.
func agree(what, annotation, fieldType string, local *string, at *field.Path) field.ErrorList {
	same := true // as what isn't known
	switch fieldType {
	case string(corev1.AppArmorProfileTypeUnconfined):
		same = annotation == corev1.DeprecatedAppArmorBetaProfileNameUnconfined
	case string(corev1.AppArmorProfileTypeRuntimeDefault):
		defaults := []string{corev1.DeprecatedAppArmorBetaProfileRuntimeDefault}
		if what == "seccomp" {
			defaults = append(defaults, corev1.DeprecatedSeccompProfileDockerDefault)
		}
		same = slices.Contains(defaults, annotation)
	case string(corev1.AppArmorProfileTypeLocalhost):
		var name string
		name, same = strings.CutPrefix(annotation, corev1.DeprecatedAppArmorBetaProfileNamePrefix)
		if same && (local == nil || *local != name) {
			return field.ErrorList{field.Forbidden(at.Child("localhostProfile"),
				what+" profile in annotation and field must match")}
		}
	}
	if !same {
		return field.ErrorList{field.Forbidden(at.Child("type"), what+" type in annotation and field must match")}
	}
	return nil
}
