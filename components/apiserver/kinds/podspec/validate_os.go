package podspec

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateOS checks that a pod for one operating system asks for nothing that only another has.
func validateOS(s *corev1.PodSpec, path *field.Path) field.ErrorList {
	if s.OS == nil {
		return nil
	}
	if errs := oneOf(s.OS.Name, path.Child("os", "name"), corev1.Linux, corev1.Windows); len(errs) > 0 {
		return errs
	}
	if s.OS.Name == corev1.Linux {
		return noWindows(s, path)
	}
	return noLinux(s, path)
}

func noWindows(s *corev1.PodSpec, path *field.Path) field.ErrorList {
	const msg = "windows options cannot be set for a linux pod"
	var errs field.ErrorList
	if s.SecurityContext != nil && s.SecurityContext.WindowsOptions != nil {
		errs = append(errs, field.Forbidden(path.Child("securityContext", "windowsOptions"), msg))
	}
	eachSecurity(s, path, func(sc *corev1.SecurityContext, at *field.Path) {
		if sc.WindowsOptions != nil {
			errs = append(errs, field.Forbidden(at.Child("windowsOptions"), msg))
		}
	})
	return errs
}

func noLinux(s *corev1.PodSpec, path *field.Path) field.ErrorList {
	const msg = "cannot be set for a windows pod"
	var errs field.ErrorList
	forbid := func(at *field.Path, set map[string]bool) {
		for name, is := range set {
			if is {
				errs = append(errs, field.Forbidden(at.Child(name), msg))
			}
		}
	}
	forbid(path, map[string]bool{"hostPID": s.HostPID, "hostIPC": s.HostIPC,
		"shareProcessNamespace": s.ShareProcessNamespace != nil, "hostUsers": s.HostUsers != nil})
	if sc := s.SecurityContext; sc != nil {
		forbid(path.Child("securityContext"), map[string]bool{
			"appArmorProfile": sc.AppArmorProfile != nil, "seLinuxOptions": sc.SELinuxOptions != nil,
			"seccompProfile": sc.SeccompProfile != nil, "fsGroup": sc.FSGroup != nil,
			"fsGroupChangePolicy": sc.FSGroupChangePolicy != nil, "sysctls": len(sc.Sysctls) > 0,
			"runAsUser": sc.RunAsUser != nil, "runAsGroup": sc.RunAsGroup != nil,
			"supplementalGroups": sc.SupplementalGroups != nil, "supplementalGroupsPolicy": sc.SupplementalGroupsPolicy != nil,
		})
	}
	eachSecurity(s, path, func(sc *corev1.SecurityContext, at *field.Path) {
		forbid(at, map[string]bool{
			"appArmorProfile": sc.AppArmorProfile != nil, "seLinuxOptions": sc.SELinuxOptions != nil,
			"seccompProfile": sc.SeccompProfile != nil, "capabilities": sc.Capabilities != nil,
			"readOnlyRootFilesystem": sc.ReadOnlyRootFilesystem != nil, "privileged": sc.Privileged != nil,
			"allowPrivilegeEscalation": sc.AllowPrivilegeEscalation != nil, "procMount": sc.ProcMount != nil,
			"runAsUser": sc.RunAsUser != nil, "runAsGroup": sc.RunAsGroup != nil,
		})
	})
	return errs
}

func eachSecurity(s *corev1.PodSpec, path *field.Path, f func(*corev1.SecurityContext, *field.Path)) {
	for name, cs := range map[string][]corev1.Container{"containers": s.Containers, "initContainers": s.InitContainers} {
		for i := range cs {
			if cs[i].SecurityContext != nil {
				f(cs[i].SecurityContext, path.Child(name).Index(i).Child("securityContext"))
			}
		}
	}
}

// validateAnnotations checks the annotations of a pod that have a meaning.
func validateAnnotations(annotations map[string]string, s *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if mirror, ok := annotations[corev1.MirrorPodAnnotationKey]; ok && s.NodeName == "" {
		errs = append(errs, field.Invalid(path.Key(corev1.MirrorPodAnnotationKey), mirror,
			"must set spec.nodeName if mirror pod annotation is set"))
	}
	for key, value := range annotations {
		name, ok := strings.CutPrefix(key, corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix)
		if !ok {
			continue
		}
		if !hasContainer(s, name) {
			errs = append(errs, field.Invalid(path.Key(key), name, "container not found"))
		}
		if value != "" && appArmorProfile(value) == nil {
			errs = append(errs, field.Invalid(path.Key(key), value, "invalid AppArmor profile name: \""+value+"\""))
		}
	}
	return errs
}

func hasContainer(s *corev1.PodSpec, name string) bool {
	for _, cs := range [][]corev1.Container{s.Containers, s.InitContainers} {
		for i := range cs {
			if cs[i].Name == name {
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
