// Package csr approves, signs and cleans up certificate signing requests by the rules of Kubernetes' own signers
// (https://kubernetes.io/docs/reference/access-authn-authz/certificate-signing-requests/#kubernetes-signers).
package csr

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	certificates "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
)

const (
	nodeGroup      = "system:nodes"
	nodeUserPrefix = "system:node:"
)

// parse reads the request inside of a CertificateSigningRequest.
func parse(request []byte) (*x509.CertificateRequest, error) {
	block, _ := pem.Decode(request)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, errors.New("spec.request must be a PEM block of type CERTIFICATE REQUEST")
	}
	return x509.ParseCertificateRequest(block.Bytes)
}

// condition returns the condition of type t, or nil.
func condition(csr *certificates.CertificateSigningRequest,
	t certificates.RequestConditionType) *certificates.CertificateSigningRequestCondition {
	for i := range csr.Status.Conditions {
		if csr.Status.Conditions[i].Type == t && csr.Status.Conditions[i].Status != v1.ConditionFalse {
			return &csr.Status.Conditions[i]
		}
	}
	return nil
}

// open tells whether the request is neither approved nor denied yet.
func open(csr *certificates.CertificateSigningRequest) bool {
	return len(csr.Status.Certificate) == 0 &&
		condition(csr, certificates.CertificateApproved) == nil && condition(csr, certificates.CertificateDenied) == nil
}

// usagesAre tells whether usages are exactly required, with or without key encipherment, which only RSA keys need.
func usagesAre(usages []certificates.KeyUsage, required ...certificates.KeyUsage) bool {
	for _, usage := range usages {
		if usage != certificates.UsageKeyEncipherment && !slices.Contains(required, usage) {
			return false
		}
	}
	for _, usage := range required {
		if !slices.Contains(usages, usage) {
			return false
		}
	}
	return true
}

// kubeletClient says why a request is not one for the client certificate of a kubelet.
func kubeletClient(r *x509.CertificateRequest, usages []certificates.KeyUsage) error {
	switch {
	case !slices.Equal(r.Subject.Organization, []string{nodeGroup}):
		return fmt.Errorf("subject organization is not %s alone", nodeGroup)
	case len(r.DNSNames) > 0:
		return errors.New("DNS subjectAltNames are not allowed")
	case len(r.IPAddresses) > 0:
		return errors.New("IP subjectAltNames are not allowed")
	case len(r.EmailAddresses) > 0:
		return errors.New("email subjectAltNames are not allowed")
	case len(r.URIs) > 0:
		return errors.New("URI subjectAltNames are not allowed")
	case !strings.HasPrefix(r.Subject.CommonName, nodeUserPrefix):
		return fmt.Errorf("subject common name does not begin with %s", nodeUserPrefix)
	case !usagesAre(usages, certificates.UsageDigitalSignature, certificates.UsageClientAuth):
		return errors.New("usages did not match [digital signature, client auth], with or without key encipherment")
	}
	return nil
}

// kubeletServing says why a request is not one for the serving certificate of a kubelet.
func kubeletServing(r *x509.CertificateRequest, usages []certificates.KeyUsage) error {
	switch {
	case !slices.Equal(r.Subject.Organization, []string{nodeGroup}):
		return fmt.Errorf("subject organization is not %s alone", nodeGroup)
	case len(r.DNSNames) == 0 && len(r.IPAddresses) == 0:
		return errors.New("at least one DNS or IP subjectAltName is required")
	case len(r.EmailAddresses) > 0:
		return errors.New("email subjectAltNames are not allowed")
	case len(r.URIs) > 0:
		return errors.New("URI subjectAltNames are not allowed")
	case !strings.HasPrefix(r.Subject.CommonName, nodeUserPrefix):
		return fmt.Errorf("subject common name does not begin with %s", nodeUserPrefix)
	case !usagesAre(usages, certificates.UsageDigitalSignature, certificates.UsageServerAuth):
		return errors.New("usages did not match [digital signature, server auth], with or without key encipherment")
	}
	return nil
}

// apiClient says why a request is not one for a client certificate.
func apiClient(_ *x509.CertificateRequest, usages []certificates.KeyUsage) error {
	if !slices.Contains(usages, certificates.UsageClientAuth) {
		return errors.New("usage client auth is required")
	}
	for _, usage := range usages {
		switch usage {
		case certificates.UsageDigitalSignature, certificates.UsageKeyEncipherment, certificates.UsageClientAuth:
		default:
			return fmt.Errorf("usage %s is not allowed", usage)
		}
	}
	return nil
}

func anything(*x509.CertificateRequest, []certificates.KeyUsage) error { return nil }
