package podspec

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
)

// Bounds of what Windows takes.
const (
	maxGMSASpec      = 64 * 1024
	maxWindowsDomain = 255
	maxWindowsUser   = 104
	maxNetBIOS       = 15 // characters; the others are counted in bytes
)

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
	if c := w.GMSACredentialSpec; c != nil {
		if *c == "" {
			errs = append(errs, field.Invalid(at.Child("gmsaCredentialSpec"), c,
				"gmsaCredentialSpec cannot be an empty string"))
		} else if len(*c) > maxGMSASpec {
			errs = append(errs, field.Invalid(at.Child("gmsaCredentialSpec"), c,
				fmt.Sprintf("gmsaCredentialSpec size must be under %d KiB", maxGMSASpec/1024)))
		}
	}
	if u := w.RunAsUserName; u != nil {
		for _, msg := range windowsUserProblems(*u) {
			errs = append(errs, field.Invalid(at.Child("runAsUserName"), u, msg))
		}
	}
	return errs
}

// windowsUserProblems checks [DOMAIN\]USER
// (https://kubernetes.io/docs/tasks/configure-pod-container/configure-runasusername/#windows-username-limitations).
func windowsUserProblems(name string) []string {
	switch {
	case name == "":
		return []string{"runAsUserName cannot be an empty string"}
	case strings.ContainsFunc(name, func(r rune) bool { return r < 0x20 || r == 0x7f }):
		return []string{"runAsUserName cannot contain control characters"}
	case strings.Count(name, `\`) > 1:
		return []string{"runAsUserName cannot contain more than one backslash"}
	}
	domain, user, hasDomain := strings.Cut(name, `\`)
	if !hasDomain {
		return windowsAccountProblems(name)
	}
	var out []string
	if len(domain) > maxWindowsDomain {
		out = append(out, fmt.Sprintf("runAsUserName's Domain length must be under %d characters", maxWindowsDomain+1))
	}
	if !isNetBIOS(domain) && !isWindowsDNS(domain) {
		out = append(out, "runAsUserName's Domain doesn't match the NetBios nor the DNS format")
	}
	return append(out, windowsAccountProblems(user)...)
}

func windowsAccountProblems(user string) []string {
	const never = `"/\:;|=,+*?<>@[]`
	if user == "" {
		return []string{"runAsUserName's User cannot be empty"}
	}
	var out []string
	if len(user) > maxWindowsUser {
		out = append(out, fmt.Sprintf("runAsUserName's User length must not be longer than %d characters",
			maxWindowsUser))
	}
	if strings.Trim(user, ". ") == "" {
		out = append(out, "runAsUserName's User cannot contain only periods or spaces")
	}
	if strings.ContainsAny(user, never) {
		out = append(out, "runAsUserName's User cannot contain the following characters: "+never)
	}
	return out
}

func isNetBIOS(domain string) bool {
	return domain != "" && utf8.RuneCountInString(domain) <= maxNetBIOS && domain[0] != '.' &&
		!strings.ContainsAny(domain, `\/:*?"<>|`)
}

func isWindowsDNS(domain string) bool {
	if strings.ContainsFunc(domain, func(r rune) bool { return r > unicode.MaxASCII }) {
		return false // before it becomes another letter in lower case
	}
	for label := range strings.SplitSeq(domain, ".") {
		if len(checks.Label(strings.ToLower(label))) > 0 {
			return false
		}
	}
	return true
}

// validateHostProcess checks that all containers of a pod are processes of the host, or none, and that the pod says
// nothing else (KEP-1981).
func (r Rules) validateHostProcess(s *corev1.PodSpec, path *field.Path) field.ErrorList {
	var whole *bool
	if sc := s.SecurityContext; sc != nil && sc.WindowsOptions != nil {
		whole = sc.WindowsOptions.HostProcess
	}
	var errs field.ErrorList
	total, host := 0, 0
	eachSecurity(s, path, func(sc *corev1.SecurityContext, at *field.Path) {
		total++
		own := whole
		if sc != nil && sc.WindowsOptions != nil && sc.WindowsOptions.HostProcess != nil {
			own = sc.WindowsOptions.HostProcess
			if whole != nil && *whole != *own {
				errs = append(errs, field.Invalid(at.Child("windowsOptions", "hostProcess"), *own,
					fmt.Sprintf("pod hostProcess value must be identical if both are specified, was %v", *whole)))
			}
		}
		if own != nil && *own {
			host++
		}
	})
	if host == 0 {
		return errs
	}
	if host != total {
		errs = append(errs, field.Invalid(path, "",
			"If pod contains any hostProcess containers then all containers must be HostProcess containers"))
	}
	if !s.HostNetwork {
		errs = append(errs, field.Invalid(path.Child("hostNetwork"), s.HostNetwork,
			"hostNetwork must be true if pod contains any hostProcess containers"))
	}
	if !r.Privileged {
		errs = append(errs, field.Forbidden(path, "hostProcess containers are disallowed by cluster policy"))
	}
	return errs
}
