package podspec

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// syncAppArmor keeps the AppArmor fields and the older annotations of a new pod the same, for readers of either.
func syncAppArmor(p *corev1.Pod) {
	if p.Spec.OS != nil && p.Spec.OS.Name == corev1.Windows {
		return
	}
	var whole *corev1.AppArmorProfile
	if p.Spec.SecurityContext != nil {
		whole = p.Spec.SecurityContext.AppArmorProfile
	}
	sync := func(c *corev1.Container) {
		key := corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix + c.Name
		annotation, annotated := p.Annotations[key]
		var own *corev1.AppArmorProfile
		if c.SecurityContext != nil {
			own = c.SecurityContext.AppArmorProfile
		}
		effective := own
		if effective == nil {
			effective = whole
		}
		switch {
		case effective != nil && !annotated:
			if value := appArmorAnnotation(effective); value != "" {
				if p.Annotations == nil {
					p.Annotations = map[string]string{}
				}
				p.Annotations[key] = value
			}
		case annotated && own == nil:
			profile := appArmorProfile(annotation)
			if profile == nil || whole != nil && sameAppArmor(whole, profile) {
				return
			}
			if c.SecurityContext == nil {
				c.SecurityContext = &corev1.SecurityContext{}
			}
			c.SecurityContext.AppArmorProfile = profile
		}
	}
	for i := range p.Spec.InitContainers {
		sync(&p.Spec.InitContainers[i])
	}
	for i := range p.Spec.Containers {
		sync(&p.Spec.Containers[i])
	}
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

func appArmorProfile(annotation string) *corev1.AppArmorProfile {
	switch {
	case annotation == corev1.DeprecatedAppArmorBetaProfileRuntimeDefault:
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}
	case annotation == corev1.DeprecatedAppArmorBetaProfileNameUnconfined:
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
	case strings.HasPrefix(annotation, corev1.DeprecatedAppArmorBetaProfileNamePrefix):
		name := strings.TrimPrefix(annotation, corev1.DeprecatedAppArmorBetaProfileNamePrefix)
		if name != "" {
			return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost, LocalhostProfile: &name}
		}
	}
	return nil
}

func sameAppArmor(a, b *corev1.AppArmorProfile) bool {
	return appArmorAnnotation(a) == appArmorAnnotation(b)
}
