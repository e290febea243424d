package podspec

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateOS checks that a pod for one operating system asks for nothing that only another has.
func validateOS(s *corev1.PodSpec, path *field.Path) field.ErrorList {
	if s.OS == nil {
		return nil
	}
	switch s.OS.Name {
	case corev1.Linux:
		return noWindows(s, path)
	case corev1.Windows:
		return noLinux(s, path)
	case "":
		return field.ErrorList{field.Required(path.Child("os", "name"), "")}
	}
	return field.ErrorList{field.NotSupported(path.Child("os"), s.OS.Name,
		[]corev1.OSName{corev1.Linux, corev1.Windows})}
}

func isWindows(s *corev1.PodSpec) bool { return s.OS != nil && s.OS.Name == corev1.Windows }

func noWindows(s *corev1.PodSpec, path *field.Path) field.ErrorList {
	const msg = "windows options cannot be set for a linux pod"
	var errs field.ErrorList
	if s.SecurityContext != nil {
		errs = append(errs, forbidden(path.Child("securityContext"), msg,
			[]setField{{"windowsOptions", s.SecurityContext.WindowsOptions != nil}})...)
	}
	eachSecurity(s, path, func(sc *corev1.SecurityContext, at *field.Path) {
		if sc != nil {
			errs = append(errs, forbidden(at, msg, []setField{{"windowsOptions", sc.WindowsOptions != nil}})...)
		}
	})
	return errs
}

func noLinux(s *corev1.PodSpec, path *field.Path) field.ErrorList {
	const msg = "cannot be set for a windows pod"
	var errs field.ErrorList
	at, sc := path.Child("securityContext"), s.SecurityContext
	if sc == nil {
		sc = &corev1.PodSecurityContext{}
	}
	for _, part := range []struct {
		at     *field.Path
		fields []setField
	}{
		{at, []setField{{"appArmorProfile", sc.AppArmorProfile != nil}, {"seLinuxOptions", sc.SELinuxOptions != nil}}},
		{path, []setField{{"hostUsers", s.HostUsers != nil}, {"hostPID", s.HostPID}, {"hostIPC", s.HostIPC}}},
		{at, []setField{{"seccompProfile", sc.SeccompProfile != nil}, {"fsGroup", sc.FSGroup != nil},
			{"fsGroupChangePolicy", sc.FSGroupChangePolicy != nil}, {"sysctls", len(sc.Sysctls) > 0}}},
		{path, []setField{{"shareProcessNamespace", s.ShareProcessNamespace != nil}}},
		{at, []setField{{"runAsUser", sc.RunAsUser != nil}, {"runAsGroup", sc.RunAsGroup != nil},
			{"supplementalGroups", sc.SupplementalGroups != nil},
			{"supplementalGroupsPolicy", sc.SupplementalGroupsPolicy != nil},
			{"seLinuxChangePolicy", sc.SELinuxChangePolicy != nil}}},
	} {
		errs = append(errs, forbidden(part.at, msg, part.fields)...)
	}
	eachSecurity(s, path, func(sc *corev1.SecurityContext, at *field.Path) {
		if sc == nil {
			return
		}
		errs = append(errs, forbidden(at, msg, []setField{
			{"appArmorProfile", sc.AppArmorProfile != nil}, {"seLinuxOptions", sc.SELinuxOptions != nil},
			{"seccompProfile", sc.SeccompProfile != nil}, {"capabilities", sc.Capabilities != nil},
			{"readOnlyRootFilesystem", sc.ReadOnlyRootFilesystem != nil}, {"privileged", sc.Privileged != nil},
			{"allowPrivilegeEscalation", sc.AllowPrivilegeEscalation != nil}, {"procMount", sc.ProcMount != nil},
			{"runAsUser", sc.RunAsUser != nil}, {"runAsGroup", sc.RunAsGroup != nil},
		})...)
	})
	return errs
}

// eachSecurity calls f for the security context of each container, also if it has none.
func eachSecurity(s *corev1.PodSpec, path *field.Path, f func(sc *corev1.SecurityContext, at *field.Path)) {
	visit := func(sc *corev1.SecurityContext, list string, i int) {
		f(sc, path.Child(list).Index(i).Child("securityContext"))
	}
	for i := range s.InitContainers {
		visit(s.InitContainers[i].SecurityContext, "initContainers", i)
	}
	for i := range s.Containers {
		visit(s.Containers[i].SecurityContext, "containers", i)
	}
	for i := range s.EphemeralContainers {
		visit(s.EphemeralContainers[i].SecurityContext, "ephemeralContainers", i)
	}
}
