package certificates

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// minExpiration is the shortest life of a certificate that may be asked for, in seconds.
const minExpiration = 600

var knownUsages = sets.New(
	certificatesv1.UsageSigning, certificatesv1.UsageDigitalSignature, certificatesv1.UsageContentCommitment,
	certificatesv1.UsageKeyEncipherment, certificatesv1.UsageKeyAgreement, certificatesv1.UsageDataEncipherment,
	certificatesv1.UsageCertSign, certificatesv1.UsageCRLSign, certificatesv1.UsageEncipherOnly,
	certificatesv1.UsageDecipherOnly, certificatesv1.UsageAny, certificatesv1.UsageServerAuth,
	certificatesv1.UsageClientAuth, certificatesv1.UsageCodeSigning, certificatesv1.UsageEmailProtection,
	certificatesv1.UsageSMIME, certificatesv1.UsageIPsecEndSystem, certificatesv1.UsageIPsecTunnel,
	certificatesv1.UsageIPsecUser, certificatesv1.UsageTimestamping, certificatesv1.UsageOCSPSigning,
	certificatesv1.UsageMicrosoftSGC, certificatesv1.UsageNetscapeSGC,
)

// Validate checks a request for a certificate.
func Validate(c *certificatesv1.CertificateSigningRequest) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("spec")
	if err := parseRequest(c.Spec.Request); err != nil {
		errs = append(errs, field.Invalid(path.Child("request"), c.Spec.Request, err.Error()))
	}
	if len(c.Spec.Usages) == 0 {
		errs = append(errs, field.Required(path.Child("usages"), ""))
	}
	seen := sets.New[certificatesv1.KeyUsage]()
	for i, u := range c.Spec.Usages {
		at := path.Child("usages").Index(i)
		if !knownUsages.Has(u) {
			errs = append(errs, field.NotSupported(at, u, sets.List(knownUsages)))
		}
		if seen.Has(u) {
			errs = append(errs, field.Duplicate(at, u))
		}
		seen.Insert(u)
	}
	if s := c.Spec.ExpirationSeconds; s != nil && *s < minExpiration {
		errs = append(errs, field.Invalid(path.Child("expirationSeconds"), *s,
			"may not specify a duration less than 600 seconds (10 minutes)"))
	}
	errs = append(errs, ValidateSignerName(path.Child("signerName"), c.Spec.SignerName)...)
	return append(errs, validateStatus(c)...)
}

// ValidateUpdate checks a change through the main resource: conditions are added by others, never taken back.
func ValidateUpdate(new, old *certificatesv1.CertificateSigningRequest) field.ErrorList {
	return append(validateStatus(new), keptConditions(new, old, true)...)
}

// ValidateApproval checks a change through /approval.
func ValidateApproval(new, old *certificatesv1.CertificateSigningRequest) field.ErrorList {
	return append(validateStatus(new), keptConditions(new, old, false)...)
}

// ValidateStatusUpdate checks a change through /status: an issued certificate stays, unless it was malformed.
func ValidateStatusUpdate(new, old *certificatesv1.CertificateSigningRequest) field.ErrorList {
	errs := append(validateStatus(new), keptConditions(new, old, false)...)
	if len(old.Status.Certificate) > 0 && !bytes.Equal(new.Status.Certificate, old.Status.Certificate) {
		errs = append(errs, field.Forbidden(field.NewPath("status", "certificate"), "updates may not modify or remove a certificate"))
	}
	return errs
}

func keptConditions(new, old *certificatesv1.CertificateSigningRequest, noneAdded bool) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("status", "conditions")
	of := func(c *certificatesv1.CertificateSigningRequest, t certificatesv1.RequestConditionType) []certificatesv1.CertificateSigningRequestCondition {
		var out []certificatesv1.CertificateSigningRequestCondition
		for _, cond := range c.Status.Conditions {
			if cond.Type == t {
				out = append(out, cond)
			}
		}
		return out
	}
	for _, t := range []certificatesv1.RequestConditionType{
		certificatesv1.CertificateApproved, certificatesv1.CertificateDenied, certificatesv1.CertificateFailed,
	} {
		before, after := of(old, t), of(new, t)
		switch {
		case len(after) < len(before):
			errs = append(errs, field.Forbidden(path, fmt.Sprintf("updates may not remove a condition of type %q", t)))
		case len(after) > len(before):
			if noneAdded {
				errs = append(errs, field.Forbidden(path, fmt.Sprintf("updates may not add a condition of type %q", t)))
			}
		case !apiequality.Semantic.DeepEqual(before, after):
			errs = append(errs, field.Forbidden(path, fmt.Sprintf("updates may not modify a condition of type %q\n%v", t, "")))
		}
	}
	return errs
}

func validateStatus(c *certificatesv1.CertificateSigningRequest) field.ErrorList {
	var errs field.ErrorList
	if len(c.Status.Certificate) > 0 {
		if err := parseChain(c.Status.Certificate); err != nil {
			errs = append(errs, field.Invalid(field.NewPath("status", "certificate"), c.Status.Certificate, err.Error()))
		}
	}
	path := field.NewPath("status", "conditions")
	seen := sets.New[certificatesv1.RequestConditionType]()
	approved, denied := false, false
	for i, cond := range c.Status.Conditions {
		at := path.Index(i)
		if cond.Type == "" {
			errs = append(errs, field.Required(at.Child("type"), ""))
		}
		if cond.Status == "" {
			errs = append(errs, field.Required(at.Child("status"), ""))
		}
		terminal := cond.Type == certificatesv1.CertificateApproved || cond.Type == certificatesv1.CertificateDenied ||
			cond.Type == certificatesv1.CertificateFailed
		switch {
		case terminal && cond.Status != "" && cond.Status != corev1.ConditionTrue:
			errs = append(errs, field.NotSupported(at.Child("status"), cond.Status, []corev1.ConditionStatus{corev1.ConditionTrue}))
		case cond.Status != "" && cond.Status != corev1.ConditionTrue && cond.Status != corev1.ConditionFalse && cond.Status != corev1.ConditionUnknown:
			errs = append(errs, field.NotSupported(at.Child("status"), cond.Status,
				[]corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown}))
		}
		approved = approved || cond.Type == certificatesv1.CertificateApproved
		denied = denied || cond.Type == certificatesv1.CertificateDenied
		if (approved && denied) && (cond.Type == certificatesv1.CertificateApproved || cond.Type == certificatesv1.CertificateDenied) {
			errs = append(errs, field.Invalid(at.Child("type"), cond.Type, "Approved and Denied conditions are mutually exclusive"))
		}
		if seen.Has(cond.Type) {
			errs = append(errs, field.Duplicate(at.Child("type"), cond.Type))
		}
		seen.Insert(cond.Type)
	}
	return errs
}

func parseRequest(data []byte) error {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return errors.New("PEM block type must be CERTIFICATE REQUEST")
	}
	_, err := x509.ParseCertificateRequest(block.Bytes)
	return err
}

func parseChain(data []byte) error {
	n := 0
	for {
		var block *pem.Block
		block, data = pem.Decode(data)
		if block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return fmt.Errorf("only CERTIFICATE PEM blocks are allowed, found %q", block.Type)
		}
		if len(block.Headers) > 0 {
			return errors.New("no PEM block headers are permitted")
		}
		if _, err := x509.ParseCertificates(block.Bytes); err != nil {
			return err
		}
		n++
	}
	if n == 0 {
		return errors.New("must contain at least one CERTIFICATE PEM block")
	}
	return nil
}

// ValidateSignerName checks the name of a signer: a domain, a slash, and a path of dot-separated labels.
func ValidateSignerName(path *field.Path, name string) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	segments := strings.Split(name, "/")
	if len(segments) != 2 {
		return field.ErrorList{field.Invalid(path, name, "must be a fully qualified domain and path of the form 'example.com/signer-name'")}
	}
	var errs field.ErrorList
	for _, msg := range utilvalidation.IsDNS1123Subdomain(segments[0]) {
		errs = append(errs, field.Invalid(path, segments[0], "validating label "+segments[0]+": "+msg))
	}
	for _, part := range strings.Split(segments[1], ".") {
		if part == "" {
			errs = append(errs, field.Invalid(path, segments[1], "validating label \"\": must not be empty"))
			continue
		}
		for _, msg := range utilvalidation.IsDNS1123Subdomain(strings.ToLower(part)) {
			errs = append(errs, field.Invalid(path, segments[1], fmt.Sprintf("validating label %q: %s", part, msg)))
		}
	}
	if !strings.Contains(segments[0], ".") {
		errs = append(errs, field.Invalid(path, segments[0], "should be a domain with at least two segments separated by dots"))
	}
	return errs
}
