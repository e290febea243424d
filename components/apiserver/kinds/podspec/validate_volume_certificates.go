package podspec

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
)

// trustBundle checks a projection of one ClusterTrustBundle, by its name, or of all of a signer.
func (v *projection) trustBundle(b *corev1.ClusterTrustBundleProjection, at *field.Path) {
	switch {
	case b.Name != nil && b.SignerName != nil:
		v.errs = append(v.errs, field.Invalid(at, checks.Unversioned(b), "only one of name and signerName may be used"))
	case b.Name != nil:
		v.bundleName(*b.Name, at.Child("name"))
		if b.LabelSelector != nil {
			v.errs = append(v.errs, field.Invalid(at.Child("labelSelector"), checks.Unversioned(b.LabelSelector),
				"labelSelector must be unset if name is specified"))
		}
	case b.SignerName != nil:
		if *b.SignerName == "" {
			v.errs = append(v.errs, field.Required(at.Child("signerName"), "must be a valid signer name"))
		}
		v.errs = append(v.errs, checks.SignerName(*b.SignerName, at.Child("signerName"))...)
		v.errs = append(v.errs, selector(b.LabelSelector, at.Child("labelSelector"))...)
	default:
		v.errs = append(v.errs, field.Required(at, "either name or signerName must be specified"))
	}
	v.errs = append(v.errs, required1(b.Path, at.Child("path"))...)
	v.errs = append(v.errs, unreserved(b.Path, at.Child("path"))...)
	v.take(b.Path, b.Path)
}

// bundleName checks a name, of which what is before the last colon stands for the signer.
func (v *projection) bundleName(name string, at *field.Path) {
	if name == "" {
		v.errs = append(v.errs, field.Required(at, "must be a valid object name"))
	}
	signer := ""
	if end := strings.LastIndex(name, ":"); end >= 0 {
		signer = strings.ReplaceAll(name[:end], ":", "/")
	}
	for _, msg := range checks.TrustBundleName(signer, name, false) {
		v.errs = append(v.errs, field.Invalid(at, name, "not a valid clustertrustbundlename: "+msg))
	}
}

// keyTypes are those of the keys that a kubelet makes for a pod.
func keyTypes() []string {
	return []string{"RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"}
}

// certificate checks a projection of a certificate that the kubelet requests for the pod.
func (v *projection) certificate(c *corev1.PodCertificateProjection, at *field.Path) {
	v.errs = append(v.errs, checks.SignerName(c.SignerName, at.Child("signerName"))...)
	if !slices.Contains(keyTypes(), c.KeyType) {
		v.errs = append(v.errs, field.NotSupported(at.Child("keyType"), c.KeyType, keyTypes()))
	}
	if s := c.MaxExpirationSeconds; s != nil {
		path, most := at.Child("maxExpirationSeconds"), checks.PodCertificateLife(c.SignerName)
		if *s < checks.MinPodCertificateLife {
			v.errs = append(v.errs, field.Invalid(path, *s,
				fmt.Sprintf("if provided, maxExpirationSeconds must be >= %d", checks.MinPodCertificateLife)))
		}
		if *s > most {
			v.errs = append(v.errs, field.Invalid(path, *s,
				fmt.Sprintf("if provided, maxExpirationSeconds must be <= %d", most)))
		}
	}
	none := true
	for _, f := range []struct{ name, path string }{
		{"credentialBundlePath", c.CredentialBundlePath}, {"keyPath", c.KeyPath},
		{"certificateChainPath", c.CertificateChainPath},
	} {
		if f.path != "" {
			none = false
			v.errs = append(v.errs, unreserved(f.path, at.Child(f.name))...)
			v.take(f.path, f.path)
		}
	}
	if none {
		v.errs = append(v.errs, field.Required(at,
			"specify at least one of credentialBundlePath, keyPath, and certificateChainPath"))
	}
	v.errs = append(v.errs, checks.UserAnnotations(c.UserAnnotations, at.Child("userAnnotations"))...)
}
