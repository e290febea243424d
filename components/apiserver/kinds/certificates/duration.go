package certificates

import (
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/util/cert"
)

// IssuesDuration tells whether a change brings the certificate to a request that asked for a duration.
func IssuesDuration(new, old *certificatesv1.CertificateSigningRequest) bool {
	return old.Spec.ExpirationSeconds != nil && len(old.Status.Certificate) == 0 && len(new.Status.Certificate) > 0
}

// HonorsDuration tells whether the certificate lives about as long as was asked for: signers let it begin some minutes
// ago, and may round.
func HonorsDuration(r *certificatesv1.CertificateSigningRequest) bool {
	issued, err := cert.ParseCertsPEM(r.Status.Certificate)
	if err != nil {
		return false
	}
	wanted := time.Duration(*r.Spec.ExpirationSeconds) * time.Second
	off := (issued[0].NotAfter.Sub(issued[0].NotBefore) - wanted).Abs()
	return off < 5*time.Minute+wanted/20
}
