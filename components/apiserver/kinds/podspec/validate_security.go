package podspec

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validatePodSecurity(s *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	at := path.Child("securityContext")
	hostUsers := s.HostUsers == nil || *s.HostUsers
	if !hostUsers {
		for name, set := range map[string]bool{"hostNetwork": s.HostNetwork, "hostPID": s.HostPID, "hostIPC": s.HostIPC} {
			if set {
				errs = append(errs, field.Forbidden(path.Child(name), "when `hostUsers` is false"))
			}
		}
	}
	if s.HostPID && s.ShareProcessNamespace != nil && *s.ShareProcessNamespace {
		errs = append(errs, field.Invalid(path.Child("shareProcessNamespace"), *s.ShareProcessNamespace,
			"ShareProcessNamespace and HostPID cannot both be enabled"))
	}
	sc := s.SecurityContext
	if sc == nil {
		return errs
	}
	errs = append(errs, groupID(sc.FSGroup, at.Child("fsGroup"))...)
	errs = append(errs, userID(sc.RunAsUser, at.Child("runAsUser"))...)
	errs = append(errs, groupID(sc.RunAsGroup, at.Child("runAsGroup"))...)
	for i := range sc.SupplementalGroups {
		errs = append(errs, groupID(&sc.SupplementalGroups[i], at.Child("supplementalGroups").Index(i))...)
	}
	errs = append(errs, validateSysctls(sc.Sysctls, s, at.Child("sysctls"))...)
	if p := sc.FSGroupChangePolicy; p != nil {
		errs = append(errs, oneOf(*p, at.Child("fsGroupChangePolicy"), corev1.FSGroupChangeAlways, corev1.FSGroupChangeOnRootMismatch)...)
	}
	if p := sc.SupplementalGroupsPolicy; p != nil {
		errs = append(errs, oneOf(*p, at.Child("supplementalGroupsPolicy"), corev1.SupplementalGroupsPolicyMerge, corev1.SupplementalGroupsPolicyStrict)...)
	}
	if p := sc.SELinuxChangePolicy; p != nil {
		errs = append(errs, oneOf(*p, at.Child("seLinuxChangePolicy"), corev1.SELinuxChangePolicyMountOption, corev1.SELinuxChangePolicyRecursive)...)
	}
	errs = append(errs, validateSeccomp(sc.SeccompProfile, at.Child("seccompProfile"))...)
	errs = append(errs, validateAppArmor(sc.AppArmorProfile, at.Child("appArmorProfile"))...)
	return append(errs, validateWindows(sc.WindowsOptions, at.Child("windowsOptions"))...)
}

func validateSecurity(sc *corev1.SecurityContext, s *corev1.PodSpec, at *field.Path) field.ErrorList {
	if sc == nil {
		return nil
	}
	errs := userID(sc.RunAsUser, at.Child("runAsUser"))
	errs = append(errs, groupID(sc.RunAsGroup, at.Child("runAsGroup"))...)
	if p := sc.ProcMount; p != nil {
		errs = append(errs, oneOf(*p, at.Child("procMount"), corev1.DefaultProcMount, corev1.UnmaskedProcMount)...)
		if *p == corev1.UnmaskedProcMount && (s.HostUsers == nil || *s.HostUsers) {
			errs = append(errs, field.Invalid(at.Child("procMount"), p, "`hostUsers` must be false to use `Unmasked`"))
		}
	}
	errs = append(errs, validateSeccomp(sc.SeccompProfile, at.Child("seccompProfile"))...)
	errs = append(errs, validateAppArmor(sc.AppArmorProfile, at.Child("appArmorProfile"))...)
	if sc.AllowPrivilegeEscalation != nil && !*sc.AllowPrivilegeEscalation {
		if sc.Privileged != nil && *sc.Privileged {
			errs = append(errs, field.Invalid(at, sc, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"))
		}
		if sc.Capabilities != nil && slices.ContainsFunc(sc.Capabilities.Add, func(c corev1.Capability) bool { return c == "CAP_SYS_ADMIN" }) {
			errs = append(errs, field.Invalid(at, sc, "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"))
		}
	}
	return append(errs, validateWindows(sc.WindowsOptions, at.Child("windowsOptions"))...)
}

func userID(id *int64, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if id != nil {
		for _, msg := range utilvalidation.IsValidUserID(*id) {
			errs = append(errs, field.Invalid(at, *id, msg))
		}
	}
	return errs
}

func groupID(id *int64, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if id != nil {
		for _, msg := range utilvalidation.IsValidGroupID(*id) {
			errs = append(errs, field.Invalid(at, *id, msg))
		}
	}
	return errs
}

func validateSeccomp(p *corev1.SeccompProfile, at *field.Path) field.ErrorList {
	if p == nil {
		return nil
	}
	if p.Type == "" {
		return field.ErrorList{field.Required(at.Child("type"), "type is required when seccompProfile is set")}
	}
	if p.Type == corev1.SeccompProfileTypeLocalhost {
		if p.LocalhostProfile == nil {
			return field.ErrorList{field.Required(at.Child("localhostProfile"), "must be set when seccomp type is Localhost")}
		}
		return descending(*p.LocalhostProfile, at.Child("localhostProfile"))
	}
	var errs field.ErrorList
	if p.LocalhostProfile != nil {
		errs = append(errs, field.Invalid(at.Child("localhostProfile"), p, "can only be set when seccomp type is Localhost"))
	}
	if p.Type != corev1.SeccompProfileTypeRuntimeDefault && p.Type != corev1.SeccompProfileTypeUnconfined {
		errs = append(errs, field.NotSupported(at.Child("type"), p.Type, []corev1.SeccompProfileType{
			corev1.SeccompProfileTypeLocalhost, corev1.SeccompProfileTypeRuntimeDefault, corev1.SeccompProfileTypeUnconfined}))
	}
	return errs
}

// maxLocalhostProfile bounds the name of an AppArmor profile.
const maxLocalhostProfile = 4095

func validateAppArmor(p *corev1.AppArmorProfile, at *field.Path) field.ErrorList {
	if p == nil {
		return nil
	}
	local := at.Child("localhostProfile")
	switch p.Type {
	case corev1.AppArmorProfileTypeLocalhost:
		switch {
		case p.LocalhostProfile == nil:
			return field.ErrorList{field.Required(local, "must be set when AppArmor type is Localhost")}
		case strings.TrimSpace(*p.LocalhostProfile) != *p.LocalhostProfile:
			return field.ErrorList{field.Invalid(local, *p.LocalhostProfile, "must not be padded with whitespace")}
		case *p.LocalhostProfile == "":
			return field.ErrorList{field.Required(local, "must be set when AppArmor type is Localhost")}
		case len(*p.LocalhostProfile) > maxLocalhostProfile:
			return field.ErrorList{field.TooLong(local, "", maxLocalhostProfile)}
		}
	case corev1.AppArmorProfileTypeRuntimeDefault, corev1.AppArmorProfileTypeUnconfined:
		if p.LocalhostProfile != nil {
			return field.ErrorList{field.Invalid(local, *p.LocalhostProfile, "can only be set when AppArmor type is Localhost")}
		}
	case "":
		return field.ErrorList{field.Required(at.Child("type"), "type is required when appArmorProfile is set")}
	default:
		return field.ErrorList{field.NotSupported(at.Child("type"), p.Type, []corev1.AppArmorProfileType{
			corev1.AppArmorProfileTypeLocalhost, corev1.AppArmorProfileTypeRuntimeDefault, corev1.AppArmorProfileTypeUnconfined})}
	}
	return nil
}

// maxSysctl bounds the name of a kernel parameter.
const maxSysctl = 253

func validateSysctls(list []corev1.Sysctl, s *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := sets.New[string]()
	for i, c := range list {
		at := path.Index(i).Child("name")
		dotted := strings.ReplaceAll(c.Name, "/", ".")
		switch {
		case c.Name == "":
			errs = append(errs, field.Required(at, ""))
		case !isSysctl(c.Name):
			errs = append(errs, field.Invalid(at, c.Name, fmt.Sprintf("must have at most %d characters and match regex %s", maxSysctl,
				`^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$`)))
		case seen.Has(dotted):
			errs = append(errs, field.Duplicate(at, c.Name))
		}
		seen.Insert(dotted)
		if s.HostNetwork && strings.HasPrefix(dotted, "net.") {
			errs = append(errs, field.Invalid(at, c.Name, "may not be specified when 'hostNetwork' is true"))
		}
		if s.HostIPC && (strings.HasPrefix(dotted, "kernel.shm") || strings.HasPrefix(dotted, "kernel.msg") ||
			dotted == "kernel.sem" || strings.HasPrefix(dotted, "fs.mqueue.")) {
			errs = append(errs, field.Invalid(at, c.Name, "may not be specified when 'hostIPC' is true"))
		}
	}
	return errs
}

func isSysctl(name string) bool {
	if len(name) > maxSysctl {
		return false
	}
	alnum := func(c byte) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' }
	for _, part := range strings.FieldsFunc(name, func(r rune) bool { return r == '.' || r == '/' }) {
		if !alnum(part[0]) || !alnum(part[len(part)-1]) || strings.ContainsFunc(part, func(r rune) bool {
			return r > 127 || !alnum(byte(r)) && r != '-' && r != '_'
		}) {
			return false
		}
	}
	return alnum(name[0]) && alnum(name[len(name)-1]) && !strings.Contains(name, "..") && !strings.Contains(name, "//")
}

func validateWindows(w *corev1.WindowsSecurityContextOptions, at *field.Path) field.ErrorList {
	if w == nil {
		return nil
	}
	var errs field.ErrorList
	if n := w.GMSACredentialSpecName; n != nil {
		for _, msg := range utilvalidation.IsDNS1123Subdomain(*n) {
			errs = append(errs, field.Invalid(at.Child("gmsaCredentialSpecName"), n, msg))
		}
	}
	const maxSpec = 64 * 1024
	if c := w.GMSACredentialSpec; c != nil {
		if len(*c) == 0 {
			errs = append(errs, field.Invalid(at.Child("gmsaCredentialSpec"), c, "gmsaCredentialSpec cannot be an empty string"))
		} else if len(*c) > maxSpec {
			errs = append(errs, field.Invalid(at.Child("gmsaCredentialSpec"), c, fmt.Sprintf("gmsaCredentialSpec size must be under %d KiB", maxSpec/1024)))
		}
	}
	if u := w.RunAsUserName; u != nil && *u == "" {
		errs = append(errs, field.Invalid(at.Child("runAsUserName"), u, "runAsUserName cannot be an empty string"))
	}
	return errs
}
