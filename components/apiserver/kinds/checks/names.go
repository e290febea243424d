package checks

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Most names are right, and that can be told without regular expressions. The library tells what is wrong with the
// others.

// Subdomain checks the name of an object of most kinds.
func Subdomain(name string) []string { return SubdomainOf(name, false) }

// SubdomainOf does so for names and for the prefixes that names are generated from.
func SubdomainOf(name string, prefix bool) []string {
	if isSubdomain(name) {
		return nil
	}
	return validation.NameIsDNSSubdomain(name, prefix)
}

// Label checks a DNS label.
func Label(name string) []string {
	if isLabel(name, utilvalidation.DNS1123LabelMaxLength) {
		return nil
	}
	return utilvalidation.IsDNS1123Label(name)
}

// LabelKey checks the name of a label.
func LabelKey(key string, path *field.Path) field.ErrorList {
	if isKey(key) {
		return nil
	}
	return metavalidation.ValidateLabelName(key, path)
}

func isSubdomain(s string) bool {
	if len(s) > utilvalidation.DNS1123SubdomainMaxLength {
		return false
	}
	for part := range strings.SplitSeq(s, ".") {
		if !isLabel(part, len(s)) {
			return false
		}
	}
	return true
}

func isLabel(s string, most int) bool {
	if s == "" || len(s) > most || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// isKey tells of names with lower-case letters only, with or without a domain before them.
func isKey(s string) bool {
	domain, name, ok := strings.Cut(s, "/")
	if !ok {
		domain, name = "a", s
	}
	return isSubdomain(domain) && isSubdomain(name) && len(name) <= utilvalidation.LabelValueMaxLength
}

// Finalizers refuses those of an object without a domain that are none of Kubernetes' own.
func Finalizers(list []string, path *field.Path) (errs field.ErrorList) {
	for i, name := range list {
		switch {
		case strings.Contains(name, "/"), name == metav1.FinalizerOrphanDependents,
			name == metav1.FinalizerDeleteDependents,
			name == string(corev1.FinalizerKubernetes):
		default:
			errs = append(errs, field.Invalid(path.Index(i), name,
				"name is neither a standard finalizer name nor is it fully qualified"))
		}
	}
	return errs
}
