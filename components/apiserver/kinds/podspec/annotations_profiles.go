package podspec

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// syncAppArmor sets the AppArmor fields of a new pod's containers from the older annotations, and warns of those.
func syncAppArmor(p *corev1.Pod) []string {
	if p.Spec.OS != nil && p.Spec.OS.Name == corev1.Windows {
		return nil
	}
	var warnings []string
	var whole *corev1.AppArmorProfile
	if p.Spec.SecurityContext != nil {
		whole = p.Spec.SecurityContext.AppArmorProfile
	}
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			c := &list[i]
			annotation, ok := p.Annotations[corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix+c.Name]
			if !ok || c.SecurityContext != nil && c.SecurityContext.AppArmorProfile != nil {
				continue
			}
			warnings = append(warnings, appArmorWarning(c.Name, field.NewPath("metadata")))
			profile := appArmorProfile(annotation)
			if profile == nil || whole != nil && appArmorAnnotation(whole) == annotation {
				continue
			}
			if c.SecurityContext == nil {
				c.SecurityContext = &corev1.SecurityContext{}
			}
			c.SecurityContext.AppArmorProfile = profile
		}
	}
	return warnings
}

func appArmorAnnotation(p *corev1.AppArmorProfile) string {
	switch p.Type {
	case corev1.AppArmorProfileTypeRuntimeDefault:
		return corev1.DeprecatedAppArmorBetaProfileRuntimeDefault
	case corev1.AppArmorProfileTypeUnconfined:
		return corev1.DeprecatedAppArmorBetaProfileNameUnconfined
	case corev1.AppArmorProfileTypeLocalhost:
		if p.LocalhostProfile != nil {
			return corev1.DeprecatedAppArmorBetaProfileNamePrefix + *p.LocalhostProfile
		}
	}
	return ""
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

// validateProfilesAgree checks that the fields for seccomp and AppArmor say what the annotations of former versions say.
func validateProfilesAgree(annotations map[string]string, s *corev1.PodSpec, path *field.Path) field.ErrorList {
	if s.OS != nil && s.OS.Name == corev1.Windows {
		return nil
	}
	var errs field.ErrorList
	seccomp := func(sc *corev1.SeccompProfile, key string, at *field.Path) {
		annotation, ok := annotations[key]
		if want := seccompProfile(annotation); ok && sc != nil && want != nil {
			errs = append(errs, agree("seccomp", string(want.Type), string(sc.Type), want.LocalhostProfile, sc.LocalhostProfile, at.Child("seccompProfile"))...)
		}
	}
	if s.SecurityContext != nil {
		seccomp(s.SecurityContext.SeccompProfile, corev1.SeccompPodAnnotationKey, path.Child("securityContext"))
	}
	eachNamed(s, path, func(name string, sc *corev1.SecurityContext, at *field.Path) {
		seccomp(sc.SeccompProfile, corev1.SeccompContainerAnnotationKeyPrefix+name, at)
	})
	eachNamed(s, path, func(name string, sc *corev1.SecurityContext, at *field.Path) {
		want := appArmorProfile(annotations[corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix+name])
		if is := sc.AppArmorProfile; want != nil && is != nil {
			errs = append(errs, agree("apparmor", string(want.Type), string(is.Type), want.LocalhostProfile, is.LocalhostProfile, at.Child("appArmorProfile"))...)
		}
	})
	return errs
}

func agree(what, wantType, isType string, wantLocal, isLocal *string, at *field.Path) field.ErrorList {
	if wantType != isType {
		return field.ErrorList{field.Forbidden(at.Child("type"), what+" type in annotation and field must match")}
	}
	if wantLocal != nil && (isLocal == nil || *isLocal != *wantLocal) {
		return field.ErrorList{field.Forbidden(at.Child("localhostProfile"), what+" profile in annotation and field must match")}
	}
	return nil
}

// eachNamed calls f for the containers that have a security context.
func eachNamed(s *corev1.PodSpec, path *field.Path, f func(name string, sc *corev1.SecurityContext, at *field.Path)) {
	for _, list := range []struct {
		name string
		all  []corev1.Container
	}{{"initContainers", s.InitContainers}, {"containers", s.Containers}} {
		for i := range list.all {
			if sc := list.all[i].SecurityContext; sc != nil {
				f(list.all[i].Name, sc, path.Child(list.name).Index(i).Child("securityContext"))
			}
		}
	}
}
