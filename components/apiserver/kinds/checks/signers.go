package checks

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Bounds of the name of a signer: a domain, a slash, and what can be the name of a resource with its namespace.
const (
	maxSignerDomain = utilvalidation.DNS1123SubdomainMaxLength
	maxSignerName   = maxSignerDomain + 1 + utilvalidation.DNS1123SubdomainMaxLength +
		utilvalidation.DNS1123LabelMaxLength + 1
)

// SignerName checks the name of a signer of certificates: a domain, a slash, and a path of dot-separated labels. Of
// each, the first fault is told.
func SignerName(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	segments := strings.Split(name, "/")
	if len(segments) != 2 {
		return field.ErrorList{field.Invalid(path, name,
			"must be a fully qualified domain and path of the form 'example.com/signer-name'")}
	}
	var errs field.ErrorList
	if len(segments[0]) > maxSignerDomain {
		errs = append(errs, field.TooLong(path, "", maxSignerDomain))
	}
	errs = append(errs, dottedLabels(segments[0], path, utilvalidation.IsDNS1123Label)...)
	if !strings.Contains(segments[0], ".") {
		errs = append(errs, field.Invalid(path, segments[0],
			"should be a domain with at least two segments separated by dots"))
	}
	errs = append(errs, dottedLabels(segments[1], path, utilvalidation.IsDNS1123Subdomain)...)
	if len(name) > maxSignerName {
		errs = append(errs, field.TooLong(path, "", maxSignerName))
	}
	return errs
}

func dottedLabels(segment string, path *field.Path, check func(string) []string) field.ErrorList {
	var errs field.ErrorList
	for label := range strings.SplitSeq(segment, ".") {
		for _, msg := range check(label) {
			errs = append(errs, field.Invalid(path, segment, fmt.Sprintf("validating label %q: %s", label, msg)))
		}
		if len(errs) > 0 {
			break
		}
	}
	return errs
}

// KubernetesSigner reports whether a signer's name is reserved for the project.
func KubernetesSigner(name string) bool {
	domain, _, _ := strings.Cut(name, "/")
	return domain == "kubernetes.io" || strings.HasSuffix(domain, ".kubernetes.io")
}

// Bounds of the life of a pod's certificate, in seconds; the second is that of signers of the project.
const (
	MinPodCertificateLife           = 60 * 60
	MaxKubernetesPodCertificateLife = 24 * 60 * 60
	MaxPodCertificateLife           = 91 * 24 * 60 * 60
)

// PodCertificateLife is how long, in seconds, a certificate of the signer may be good at most.
func PodCertificateLife(signer string) int32 {
	if KubernetesSigner(signer) {
		return MaxKubernetesPodCertificateLife
	}
	return MaxPodCertificateLife
}

// TrustBundleName checks the name of a ClusterTrustBundle of a signer, "" for none; prefix: it is a generateName.
func TrustBundleName(signer, name string, prefix bool) []string {
	if signer == "" {
		if strings.Contains(name, ":") {
			return []string{"ClusterTrustBundle without signer name must not have \":\" in its name"}
		}
		return validation.NameIsDNSSubdomain(name, prefix)
	}
	begin := strings.ReplaceAll(signer, "/", ":") + ":"
	rest, ok := strings.CutPrefix(name, begin)
	if !ok {
		return []string{fmt.Sprintf("ClusterTrustBundle for signerName %s must be named with prefix %s", signer, begin)}
	}
	return validation.NameIsDNSSubdomain(rest, prefix)
}

// UserAnnotations checks what the author of a pod tells a signer: keys with a domain, and all not larger than
// annotations may be.
func UserAnnotations(annotations map[string]string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		errs = append(errs, utilvalidation.IsDomainPrefixedKey(path, strings.ToLower(key))...)
	}
	if validation.ValidateAnnotationsSize(annotations) != nil {
		errs = append(errs, field.TooLong(path, "", validation.TotalAnnotationSizeLimitB))
	}
	return errs
}
