package podspec

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// isMirror reports whether a pod only shows what a kubelet runs from a file.
func isMirror(meta *metav1.ObjectMeta) bool {
	_, ok := meta.Annotations[corev1.MirrorPodAnnotationKey]
	return ok
}

// validateAnnotations checks the annotations of a pod or template that have a meaning; old is what it was before.
func validateAnnotations(annotations map[string]string, s *corev1.PodSpec, old *oldState,
	path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if mirror, ok := annotations[corev1.MirrorPodAnnotationKey]; ok && s.NodeName == "" {
		errs = append(errs, field.Invalid(path.Key(corev1.MirrorPodAnnotationKey), mirror,
			"must set spec.nodeName if mirror pod annotation is set"))
	}
	if text := annotations[corev1.TolerationsAnnotationKey]; text != "" {
		var list []corev1.Toleration
		if err := ReadUnversioned(text, &list); err != nil {
			errs = append(errs, field.Invalid(path, corev1.TolerationsAnnotationKey, err.Error()))
		} else {
			errs = append(errs, validateTolerations(list, old, path.Child(corev1.TolerationsAnnotationKey))...)
		}
	}
	if cost, ok := annotations[corev1.PodDeletionCost]; ok && !isCost(cost) && !old.had(badCost) {
		errs = append(errs, field.Invalid(path.Key(corev1.PodDeletionCost), cost, "must be a 32bit integer"))
	}
	errs = append(errs, seccompAnnotations(annotations, path)...)
	return append(errs, appArmorAnnotations(annotations, s, path)...)
}

// isCost reports whether a text is a number that begins with neither "+" nor a 0 too many; what comes behind "-" may.
func isCost(text string) bool {
	_, err := strconv.ParseInt(text, 10, 32)
	return err == nil && text[0] != '+' && (text[0] != '0' || text == "0")
}

func seccompAnnotations(annotations map[string]string, path *field.Path) field.ErrorList {
	check := func(key string) field.ErrorList {
		profile := seccompProfile(annotations[key])
		switch {
		case profile == nil:
			return field.ErrorList{field.Invalid(path.Child(key), annotations[key], "must be a valid seccomp profile")}
		case profile.LocalhostProfile != nil:
			return descending(*profile.LocalhostProfile, path.Child(key))
		}
		return nil
	}
	var errs field.ErrorList
	if _, ok := annotations[corev1.SeccompPodAnnotationKey]; ok {
		errs = append(errs, check(corev1.SeccompPodAnnotationKey)...)
	}
	for _, key := range sortedKeys(annotations) {
		if strings.HasPrefix(key, corev1.SeccompContainerAnnotationKeyPrefix) {
			errs = append(errs, check(key)...)
		}
	}
	return errs
}

func appArmorAnnotations(annotations map[string]string, s *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, key := range sortedKeys(annotations) {
		name, ok := strings.CutPrefix(key, corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix)
		if !ok {
			continue
		}
		if !hasContainer(s, name) {
			errs = append(errs, field.Invalid(path.Key(key), name, "container not found"))
		}
		value := annotations[key]
		if value != "" && value != corev1.DeprecatedAppArmorBetaProfileNamePrefix && appArmorProfile(value) == nil {
			errs = append(errs, field.Invalid(path.Key(key), value,
				"invalid AppArmor profile name: "+strconv.Quote(value)))
		}
	}
	return errs
}

func hasContainer(s *corev1.PodSpec, name string) bool {
	for _, list := range [][]corev1.Container{s.Containers, s.InitContainers} {
		for i := range list {
			if list[i].Name == name {
				return true
			}
		}
	}
	for i := range s.EphemeralContainers {
		if s.EphemeralContainers[i].Name == name {
			return true
		}
	}
	return false
}
