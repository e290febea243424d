package certificates

import (
	"crypto/x509"
	"encoding/pem"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/user"

	"quintet.dev/quintet/components/apiserver/kinds/twin"
)

// FromV1beta1 converts a request, which in v1beta1 need not name its signer.
func FromV1beta1(c *certificatesv1beta1.CertificateSigningRequest) *certificatesv1.CertificateSigningRequest {
	s := &c.Spec
	out := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: c.ObjectMeta, Status: *twin.Of[certificatesv1.CertificateSigningRequestStatus](&c.Status),
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: s.Request, ExpirationSeconds: s.ExpirationSeconds,
			Usages:   twin.List[certificatesv1.KeyUsage](s.Usages),
			Username: s.Username, UID: s.UID, Groups: s.Groups,
			Extra: *twin.Of[map[string]certificatesv1.ExtraValue](&s.Extra),
		},
	}
	if out.Spec.Usages == nil {
		out.Spec.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature,
			certificatesv1.UsageKeyEncipherment}
	}
	if s.SignerName != nil {
		out.Spec.SignerName = *s.SignerName
	} else {
		out.Spec.SignerName = signerOf(&out.Spec)
	}
	for i := range out.Status.Conditions {
		if out.Status.Conditions[i].Status == "" {
			out.Status.Conditions[i].Status = corev1.ConditionTrue
		}
	}
	return out
}

// signerOf is the default signer of a request that names none: a kubelet signer if the request fits, else the legacy
// unknown signer.
func signerOf(s *certificatesv1.CertificateSigningRequestSpec) string {
	block, _ := pem.Decode(s.Request)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return certificatesv1beta1.LegacyUnknownSignerName
	}
	r, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil || !slices.Equal(r.Subject.Organization, []string{user.NodesGroup}) ||
		!strings.HasPrefix(r.Subject.CommonName, "system:node:") ||
		len(r.EmailAddresses) > 0 || len(r.URIs) > 0 {
		return certificatesv1beta1.LegacyUnknownSignerName
	}
	usages := sets.New(s.Usages...).Delete(certificatesv1.UsageKeyEncipherment) // which not all keys can
	asks := func(what certificatesv1.KeyUsage) bool {
		return usages.Equal(sets.New(certificatesv1.UsageDigitalSignature, what))
	}
	switch named := len(r.DNSNames)+len(r.IPAddresses) > 0; {
	case !named && asks(certificatesv1.UsageClientAuth):
		return certificatesv1.KubeAPIServerClientKubeletSignerName
	case named && asks(certificatesv1.UsageServerAuth):
		return certificatesv1.KubeletServingSignerName
	}
	return certificatesv1beta1.LegacyUnknownSignerName
}
