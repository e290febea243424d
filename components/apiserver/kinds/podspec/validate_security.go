package podspec

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-helpers/node/util/sysctl"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
)

func validatePodSecurity(s *corev1.PodSpec, old *oldState, path *field.Path) field.ErrorList {
	sc, at := s.SecurityContext, path.Child("securityContext")
	if sc == nil {
		return nil
	}
	errs := groupID(sc.FSGroup, at.Child("fsGroup"))
	errs = append(errs, userID(sc.RunAsUser, at.Child("runAsUser"))...)
	errs = append(errs, groupID(sc.RunAsGroup, at.Child("runAsGroup"))...)
	for i := range sc.SupplementalGroups {
		errs = append(errs, groupID(&sc.SupplementalGroups[i], at.Child("supplementalGroups").Index(i))...)
	}
	if s.HostPID && s.ShareProcessNamespace != nil && *s.ShareProcessNamespace {
		errs = append(errs, field.Invalid(at.Child("shareProcessNamespace"), *s.ShareProcessNamespace,
			"ShareProcessNamespace and HostPID cannot both be enabled"))
	}
	errs = append(errs, validateSysctls(sc.Sysctls, s, old, at.Child("sysctls"))...)
	if p := sc.FSGroupChangePolicy; p != nil {
		errs = append(errs, supported(*p, at.Child("fsGroupChangePolicy"), corev1.FSGroupChangeAlways,
			corev1.FSGroupChangeOnRootMismatch)...)
	}
	errs = append(errs, validateSeccomp(sc.SeccompProfile, at.Child("seccompProfile"))...)
	errs = append(errs, validateWindows(sc.WindowsOptions, at.Child("windowsOptions"))...)
	errs = append(errs, validateAppArmor(sc.AppArmorProfile, at.Child("appArmorProfile"))...)
	if p := sc.SupplementalGroupsPolicy; p != nil {
		errs = append(errs, supported(*p, at.Child("supplementalGroupsPolicy"), corev1.SupplementalGroupsPolicyMerge,
			corev1.SupplementalGroupsPolicyStrict)...)
	}
	if p := sc.SELinuxChangePolicy; p != nil {
		errs = append(errs, supported(*p, at.Child("seLinuxChangePolicy"), labelPolicies(old)...)...)
	}
	return errs
}

// labelPolicies are the ways of giving volumes their SELinux labels. Mounting with a label is not on (KEP-1710), but
// was chosen between where there is a choice already.
func labelPolicies(old *oldState) []corev1.PodSELinuxChangePolicy {
	if old != nil && old.spec.SecurityContext != nil && old.spec.SecurityContext.SELinuxChangePolicy != nil {
		return []corev1.PodSELinuxChangePolicy{corev1.SELinuxChangePolicyMountOption,
			corev1.SELinuxChangePolicyRecursive}
	}
	return []corev1.PodSELinuxChangePolicy{corev1.SELinuxChangePolicyRecursive}
}

// mapsUsers reports whether the users of a pod are other ones on its node.
func mapsUsers(s *corev1.PodSpec) bool { return s.HostUsers != nil && !*s.HostUsers }

// validateHostUsers checks that a pod with users of its own takes nothing of the host's that they can't have.
func validateHostUsers(s *corev1.PodSpec, old *oldState, path *field.Path) field.ErrorList {
	if !mapsUsers(s) {
		return nil
	}
	const msg = "when `hostUsers` is false"
	errs := forbidden(path, msg,
		[]setField{{"hostNetwork", s.HostNetwork && !old.had(mappedHostNetwork)}, {"HostPID", s.HostPID},
			{"HostIPC", s.HostIPC}})
	if !old.had(mappedDevices) {
		eachContainer(s, path, func(c *corev1.Container, at *field.Path) {
			errs = append(errs, forbidden(at, msg, []setField{{"volumeDevices", len(c.VolumeDevices) > 0}})...)
		})
	}
	return errs
}

func (r Rules) validateSecurity(sc *corev1.SecurityContext, s *corev1.PodSpec, at *field.Path) field.ErrorList {
	if sc == nil {
		return nil
	}
	var errs field.ErrorList
	if sc.Privileged != nil && *sc.Privileged && !r.Privileged {
		errs = append(errs, field.Forbidden(at.Child("privileged"), "disallowed by cluster policy"))
	}
	errs = append(errs, userID(sc.RunAsUser, at.Child("runAsUser"))...)
	errs = append(errs, groupID(sc.RunAsGroup, at.Child("runAsGroup"))...)
	if p := sc.ProcMount; p != nil {
		errs = append(errs, supported(*p, at.Child("procMount"), corev1.DefaultProcMount, corev1.UnmaskedProcMount)...)
		if *p == corev1.UnmaskedProcMount && (s.HostUsers == nil || *s.HostUsers) {
			errs = append(errs, field.Invalid(at.Child("procMount"), *p, "`hostUsers` must be false to use `Unmasked`"))
		}
	}
	errs = append(errs, validateSeccomp(sc.SeccompProfile, at.Child("seccompProfile"))...)
	if sc.AllowPrivilegeEscalation != nil && !*sc.AllowPrivilegeEscalation {
		if sc.Privileged != nil && *sc.Privileged {
			errs = append(errs, field.Invalid(at, checks.Unversioned(sc),
				"cannot set `allowPrivilegeEscalation` to false and `privileged` to true"))
		}
		if sc.Capabilities != nil {
			for _, c := range sc.Capabilities.Add {
				if c == "CAP_SYS_ADMIN" {
					errs = append(errs, field.Invalid(at, checks.Unversioned(sc),
						"cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"))
				}
			}
		}
	}
	errs = append(errs, validateWindows(sc.WindowsOptions, at.Child("windowsOptions"))...)
	return append(errs, validateAppArmor(sc.AppArmorProfile, at.Child("appArmorProfile"))...)
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
	var errs field.ErrorList
	if p.Type == "" {
		errs = append(errs, field.Required(at.Child("type"), "type is required when seccompProfile is set"))
	} else {
		errs = append(errs, supported(p.Type, at.Child("type"), corev1.SeccompProfileTypeLocalhost,
			corev1.SeccompProfileTypeRuntimeDefault, corev1.SeccompProfileTypeUnconfined)...)
	}
	local := at.Child("localhostProfile")
	switch {
	case p.Type != corev1.SeccompProfileTypeLocalhost:
		if p.LocalhostProfile != nil {
			errs = append(errs, field.Invalid(local, checks.Unversioned(p),
				"can only be set when seccomp type is Localhost"))
		}
	case p.LocalhostProfile == nil:
		errs = append(errs, field.Required(local, "must be set when seccomp type is Localhost"))
	default:
		errs = append(errs, descending(*p.LocalhostProfile, local)...)
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
		return appArmorName(p.LocalhostProfile, local)
	case corev1.AppArmorProfileTypeRuntimeDefault, corev1.AppArmorProfileTypeUnconfined:
		if p.LocalhostProfile != nil {
			return field.ErrorList{field.Invalid(local, p.LocalhostProfile,
				"can only be set when AppArmor type is Localhost")}
		}
	case "":
		return field.ErrorList{field.Required(at.Child("type"), "type is required when appArmorProfile is set")}
	default:
		return field.ErrorList{field.NotSupported(at.Child("type"), p.Type, []corev1.AppArmorProfileType{
			corev1.AppArmorProfileTypeLocalhost, corev1.AppArmorProfileTypeRuntimeDefault,
			corev1.AppArmorProfileTypeUnconfined})}
	}
	return nil
}

// appArmorName checks the name of a profile of the node.
func appArmorName(name *string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch {
	case name == nil, *name == "":
		return field.ErrorList{field.Required(at, "must be set when AppArmor type is Localhost")}
	case strings.TrimSpace(*name) != *name:
		errs = append(errs, field.Invalid(at, *name, "must not be padded with whitespace"))
	}
	if len(*name) > maxLocalhostProfile {
		errs = append(errs, field.TooLong(at, "", maxLocalhostProfile))
	}
	return errs
}

// maxSysctl bounds the name of a kernel parameter.
const maxSysctl = 253

func validateSysctls(list []corev1.Sysctl, s *corev1.PodSpec, old *oldState, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := sets.New[string]()
	for i, c := range list {
		at := path.Index(i).Child("name")
		switch {
		case c.Name == "":
			errs = append(errs, field.Required(at, ""))
		case !isSysctl(c.Name):
			errs = append(errs, field.Invalid(at, c.Name,
				fmt.Sprintf("must have at most %d characters and match regex %s", maxSysctl,
					`^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$`)))
		case seen.Has(c.Name):
			errs = append(errs, field.Duplicate(at, c.Name))
		}
		seen.Insert(c.Name)
		if more := ofHost(c.Name, s, at); len(more) > 0 && !old.had(hostSysctl) {
			errs = append(errs, more...)
		}
	}
	return errs
}

// ofHost refuses a parameter that a pod would set for its host.
func ofHost(name string, s *corev1.PodSpec, at *field.Path) field.ErrorList {
	switch of, _, _ := sysctl.GetNamespace(name); {
	case s.HostNetwork && of == sysctl.NetNamespace:
		return field.ErrorList{field.Invalid(at, name, "may not be specified when 'hostNetwork' is true")}
	case s.HostIPC && of == sysctl.IPCNamespace:
		return field.ErrorList{field.Invalid(at, name, "may not be specified when 'hostIPC' is true")}
	}
	return nil
}

// isSysctl reads parts between dots or slashes: letters and digits, with dashes and underscores only among them.
func isSysctl(name string) bool {
	if len(name) > maxSysctl {
		return false
	}
	alnum := func(c byte) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' }
	for part := range strings.SplitSeq(strings.ReplaceAll(name, "/", "."), ".") {
		if part == "" || !alnum(part[0]) || !alnum(part[len(part)-1]) || strings.ContainsFunc(part, func(r rune) bool {
			return r > 127 || !alnum(byte(r)) && r != '-' && r != '_'
		}) {
			return false
		}
	}
	return true
}
