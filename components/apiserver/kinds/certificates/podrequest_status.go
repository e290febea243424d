package certificates

import (
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/mail"
	"strings"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
)

const (
	issued = certificatesv1beta1.PodCertificateRequestConditionTypeIssued
	denied = certificatesv1beta1.PodCertificateRequestConditionTypeDenied
	failed = certificatesv1beta1.PodCertificateRequestConditionTypeFailed
)

// Times that a signer has to keep to.
const (
	clockSkew     = 5 * time.Minute
	refreshMargin = 10 * time.Minute
)

// decides reports whether a condition of the type is the end of a request.
func decides(conditionType string) bool {
	return conditionType == issued || conditionType == denied || conditionType == failed
}

// ValidatePodRequestStatus checks a change of the status at the time now: a request is decided once, and a certificate
// is of the requested key and lives within bounds.
func ValidatePodRequestStatus(new, old *podRequest, now time.Time) field.ErrorList {
	path := field.NewPath("status")
	errs := decisions(new.Status.Conditions, path)
	errs = append(errs, metavalidation.ValidateConditions(new.Status.Conditions, path.Child("conditions"))...)
	if len(errs) > 0 {
		return errs
	}
	same := equality.Semantic.DeepEqual
	unlike := func(text string) field.ErrorList {
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, text)}
	}
	has := decision(new)
	switch {
	case decision(old) != "":
		if !same(new.Status, old.Status) {
			return unlike("immutable after PodCertificateRequest is issued, denied, or failed")
		}
	case has == issued:
		c := &podChain{request: new, path: path}
		c.check(now)
		return c.errs
	case has != "":
		if !same(new.Status, certificatesv1beta1.PodCertificateRequestStatus{Conditions: new.Status.Conditions}) {
			return unlike("non-condition status fields must be empty when denying or failing the PodCertificateRequest")
		}
	case !same(new.Status, old.Status):
		return unlike(`status is immutable unless transitioning to "Issued", "Denied", or "Failed"`)
	}
	return nil
}

// decisions checks that there is one at most, and nothing but decisions.
func decisions(conditions []metav1.Condition, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	n := 0
	for i, c := range conditions {
		// the index is an element of its own in upstream's texts
		at := path.Child("conditions", fmt.Sprintf("[%d]", i))
		if !decides(c.Type) {
			errs = append(errs, field.NotSupported(at.Child("type"), c.Type, []string{issued, denied, failed}))
			continue
		}
		if n++; n > 1 {
			errs = append(errs, field.Invalid(at.Child("type"), c.Type,
				`There may be at most one condition with type "Issued", "Denied", or "Failed"`))
		}
		if c.Status != metav1.ConditionTrue {
			errs = append(errs, field.NotSupported(at.Child("status"), c.Status,
				[]metav1.ConditionStatus{metav1.ConditionTrue}))
		}
	}
	return errs
}

// decision is the type of the condition that ended a request, "" where it is still open.
func decision(r *podRequest) string {
	for _, c := range r.Status.Conditions {
		if decides(c.Type) && c.Status == metav1.ConditionTrue {
			return c.Type
		}
	}
	return ""
}

// podChain checks the certificates that a signer gives.
type podChain struct {
	request *podRequest
	path    *field.Path
	errs    field.ErrorList
}

// refuse notes a fault of a field of the status; it returns false.
func (c *podChain) refuse(name string, value any, text string) bool {
	c.errs = append(c.errs, field.Invalid(c.path.Child(name), value, text))
	return false
}

// refuseChain notes a fault of all the certificates.
func (c *podChain) refuseChain(text string) bool {
	return c.refuse("certificateChain", c.request.Status.CertificateChain, text)
}

func (c *podChain) check(now time.Time) {
	chain := c.request.Status.CertificateChain
	if len(chain) > maxPodChain {
		c.errs = append(c.errs, field.TooLong(c.path.Child("certificateChain"), "", maxPodChain))
		return
	}
	block, rest := pem.Decode([]byte(chain))
	switch {
	case block == nil:
		c.refuseChain("issued certificate chain must contain at least one certificate")
		return
	case block.Type != "CERTIFICATE":
		c.refuseChain("issued certificate chain must consist entirely of CERTIFICATE PEM blocks")
		return
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		c.refuseChain("leaf certificate does not parse as valid X.509")
		return
	}
	c.names(leaf)
	if c.key(leaf) && c.times(leaf, now) {
		c.intermediates(rest)
	}
}

// names checks the names in a certificate.
func (c *podChain) names(leaf *x509.Certificate) {
	const field = "certificateChain"
	for _, name := range leaf.DNSNames {
		if name == "" {
			c.refuse(field, name, "leaf certificate should not contain empty DNSName")
		}
		if strings.Contains(name, "..") {
			c.refuse(field, name, "leaf certificate's DNSName should not contain '..'")
		}
		if strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".") {
			c.refuse(field, name, "leaf certificate's DNSName should not start or end with '.'")
		}
	}
	for _, address := range leaf.EmailAddresses {
		if _, err := mail.ParseAddress(address); err != nil {
			c.refuse(field, address, "leaf certificate should not contain invalid EmailAddress")
		}
	}
}

// key checks that a certificate is of the requested key.
func (c *podChain) key(leaf *x509.Certificate) bool {
	want, errs := requestedKey(&c.request.Spec)
	if len(errs) > 0 {
		c.errs = append(c.errs, errs...)
		return false
	}
	if k, ok := want.(interface{ Equal(crypto.PublicKey) bool }); !ok || !k.Equal(leaf.PublicKey) {
		return c.refuseChain("leaf certificate was not issued to the requested public key")
	}
	return true
}

// times checks that the times in the status are those of the certificate, and within bounds.
func (c *podChain) times(leaf *x509.Certificate, now time.Time) bool {
	s := &c.request.Status
	const consistent = "must be present and consistent with the issued certificate"
	for _, f := range []struct {
		name, text string
		value      *metav1.Time
	}{
		{"notBefore", consistent, s.NotBefore}, {"notAfter", consistent, s.NotAfter},
		{"beginRefreshAt", "must be present and in the range [notbefore+10min, notafter-10min]", s.BeginRefreshAt},
	} {
		if f.value == nil {
			c.errs = append(c.errs, field.Required(c.path.Child(f.name), f.text))
		}
	}
	if len(c.errs) > 0 {
		return false
	}
	begins, ends, refresh := s.NotBefore.Time, s.NotAfter.Time, s.BeginRefreshAt.Time
	life, most := leaf.NotAfter.Sub(leaf.NotBefore), *c.request.Spec.MaxExpirationSeconds
	switch {
	case !begins.Equal(leaf.NotBefore):
		return c.refuse("notBefore", begins, "must be set to the NotBefore time encoded in the leaf certificate")
	case begins.Sub(now).Abs() >= clockSkew:
		return c.refuse("notBefore", begins, "must be set to within 5 minutes of kube-apiserver's current time")
	case !ends.Equal(leaf.NotAfter):
		return c.refuse("notAfter", ends, "must be set to the NotAfter time encoded in the leaf certificate")
	case life < checks.MinPodCertificateLife*time.Second:
		return c.refuse("certificateChain", life, "leaf certificate lifetime must be >= 1 hour")
	case life > time.Duration(most)*time.Second:
		return c.refuse("certificateChain", life,
			fmt.Sprintf("leaf certificate lifetime must be <= spec.maxExpirationSeconds (%v)", most))
	case refresh.Before(begins.Add(refreshMargin)):
		return c.refuse("beginRefreshAt", refresh, "must be at least 10 minutes after status.notBefore")
	case refresh.After(ends.Add(-refreshMargin)):
		return c.refuse("beginRefreshAt", refresh, "must be at least 10 minutes before status.notAfter")
	}
	return true
}

// intermediates checks what comes after the certificate of the pod.
func (c *podChain) intermediates(rest []byte) {
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return
		}
		if block.Type != "CERTIFICATE" {
			// upstream's spelling
			c.refuseChain("issued certificate chain must consist entirely of CERTFICATE PEM blocks")
			return
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			c.refuseChain("intermediate certificate does not parse as valid X.509")
			return
		}
	}
}
