package core

import (
	"crypto/tls"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// enforceMountable is the annotation that limited pods of an account to its secrets.
const enforceMountable = "kubernetes.io/enforce-mountable-secrets"

// SecretWarnings tells when a key doesn't belong to its certificate.
func SecretWarnings(s, _ *corev1.Secret) []string {
	if s.Type != corev1.SecretTypeTLS {
		return nil
	}
	if _, err := tls.X509KeyPair(s.Data[corev1.TLSCertKey], s.Data[corev1.TLSPrivateKeyKey]); err != nil {
		return []string{err.Error()}
	}
	return nil
}

// ServiceAccountWarnings tells of what is deprecated and newly set.
func ServiceAccountWarnings(a, old *corev1.ServiceAccount) []string {
	if old != nil {
		if _, had := old.Annotations[enforceMountable]; had {
			return nil
		}
	}
	if _, has := a.Annotations[enforceMountable]; !has {
		return nil
	}
	return []string{fmt.Sprintf(
		"metadata.annotations[%s]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets",
		enforceMountable)}
}
