package certificates

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
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

// Validate checks a new request for a certificate.
func Validate(c *certificatesv1.CertificateSigningRequest) field.ErrorList { return validate(c, nil) }

// ValidateUpdate checks a change through the main resource.
func ValidateUpdate(new, old *certificatesv1.CertificateSigningRequest) field.ErrorList {
	return append(validate(new, old), keptDecision(new, old)...)
}

// ValidateApproval checks a change through /approval, by which alone requests are approved and denied.
func ValidateApproval(new, old *certificatesv1.CertificateSigningRequest) field.ErrorList {
	return append(validate(new, old), keptConditions(new, old)...)
}

// ValidateStatusUpdate checks a change through /status: a certificate that is issued stays.
func ValidateStatusUpdate(new, old *certificatesv1.CertificateSigningRequest) field.ErrorList {
	errs := append(validate(new, old), keptDecision(new, old)...)
	if len(old.Status.Certificate) > 0 && !bytes.Equal(new.Status.Certificate, old.Status.Certificate) {
		errs = append(errs, field.Forbidden(field.NewPath("status", "certificate"),
			"updates may not modify existing certificate content"))
	}
	return errs
}

// validate checks a request; what is wrong with the old one already may stay so.
func validate(c, old *certificatesv1.CertificateSigningRequest) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("spec")
	if err := parseRequest(c.Spec.Request); err != nil {
		errs = append(errs, field.Invalid(path.Child("request"), c.Spec.Request, err.Error()))
	}
	if len(c.Spec.Usages) == 0 {
		errs = append(errs, field.Required(path.Child("usages"), ""))
	}
	usages := path.Child("usages")
	if old == nil || len(unknown(old.Spec.Usages, usages)) == 0 {
		errs = append(errs, unknown(c.Spec.Usages, usages)...)
	}
	if old == nil || len(twice(old.Spec.Usages, usages.Index)) == 0 {
		errs = append(errs, twice(c.Spec.Usages, usages.Index)...)
	}
	if c.Spec.SignerName == legacySigner && (old == nil || old.Spec.SignerName != legacySigner) {
		errs = append(errs, field.Invalid(path.Child("signerName"), c.Spec.SignerName,
			"the legacy signerName is not allowed via this API version"))
	} else {
		errs = append(errs, checks.SignerName(c.Spec.SignerName, path.Child("signerName"))...)
	}
	if s := c.Spec.ExpirationSeconds; s != nil && *s < minExpiration {
		errs = append(errs, field.Invalid(path.Child("expirationSeconds"), *s,
			"may not specify a duration less than 600 seconds (10 minutes)"))
	}
	errs = append(errs, validateConditions(c, old)...)
	if old != nil && (bytes.Equal(c.Status.Certificate, old.Status.Certificate) ||
		parseChain(old.Status.Certificate) != nil) {
		return errs
	}
	if err := parseChain(c.Status.Certificate); err != nil {
		errs = append(errs, field.Invalid(field.NewPath("status", "certificate"), "<certificate data>", err.Error()))
	}
	return errs
}

// legacySigner is what requests of the first version of the API could name.
const legacySigner = "kubernetes.io/legacy-unknown"

func unknown(list []certificatesv1.KeyUsage, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, u := range list {
		if !knownUsages.Has(u) {
			errs = append(errs, field.NotSupported(at.Index(i), u, sets.List(knownUsages)))
		}
	}
	return errs
}

func twice[T comparable](list []T, at func(int) *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := sets.New[T]()
	for i, v := range list {
		if seen.Has(v) {
			errs = append(errs, field.Duplicate(at(i), v))
		}
		seen.Insert(v)
	}
	return errs
}

// lastingTypes are the conditions that are true or missing, and that can't be removed.
func lastingTypes() []certificatesv1.RequestConditionType {
	return []certificatesv1.RequestConditionType{
		certificatesv1.CertificateApproved, certificatesv1.CertificateDenied, certificatesv1.CertificateFailed,
	}
}

func validateConditions(c, old *certificatesv1.CertificateSigningRequest) field.ErrorList {
	var errs field.ErrorList
	var before []certificatesv1.RequestConditionType
	if old != nil {
		before = conditionTypes(old)
	}
	path, types := field.NewPath("status", "conditions"), conditionTypes(c)
	both := slices.Contains(before, certificatesv1.CertificateApproved) &&
		slices.Contains(before, certificatesv1.CertificateDenied)
	duplicates := len(sets.New(before...)) < len(before)
	for i, cond := range c.Status.Conditions {
		at := path.Index(i)
		if !slices.Contains(before, "") {
			errs = append(errs, checks.Required(string(cond.Type), at.Child("type"))...)
		}
		if slices.Contains(lastingTypes(), cond.Type) {
			errs = append(errs, checks.OneOf(cond.Status, at.Child("status"), corev1.ConditionTrue)...)
		} else {
			errs = append(errs, checks.OneOf(cond.Status, at.Child("status"), corev1.ConditionTrue,
				corev1.ConditionFalse, corev1.ConditionUnknown)...)
		}
		if !both && contradicts(cond.Type, types[:i]) {
			errs = append(errs, field.Invalid(path, cond.Type, "Approved and Denied conditions are mutually exclusive"))
		}
		if !duplicates && slices.Contains(types[:i], cond.Type) {
			errs = append(errs, field.Duplicate(at.Child("type"), cond.Type))
		}
	}
	return errs
}

// contradicts reports whether a decision is the opposite of one before.
func contradicts(t certificatesv1.RequestConditionType, before []certificatesv1.RequestConditionType) bool {
	return t == certificatesv1.CertificateApproved && slices.Contains(before, certificatesv1.CertificateDenied) ||
		t == certificatesv1.CertificateDenied && slices.Contains(before, certificatesv1.CertificateApproved)
}

func conditionTypes(c *certificatesv1.CertificateSigningRequest) []certificatesv1.RequestConditionType {
	var out []certificatesv1.RequestConditionType
	for _, cond := range c.Status.Conditions {
		out = append(out, cond.Type)
	}
	return out
}

func conditionsOf(c *certificatesv1.CertificateSigningRequest,
	t certificatesv1.RequestConditionType) []certificatesv1.CertificateSigningRequestCondition {
	var out []certificatesv1.CertificateSigningRequestCondition
	for _, cond := range c.Status.Conditions {
		if cond.Type == t {
			out = append(out, cond)
		}
	}
	return out
}

// keptConditions refuses to take back a condition that lasts.
func keptConditions(new, old *certificatesv1.CertificateSigningRequest) field.ErrorList {
	var errs field.ErrorList
	for _, t := range lastingTypes() {
		if len(conditionsOf(new, t)) < len(conditionsOf(old, t)) {
			errs = append(errs, field.Forbidden(field.NewPath("status", "conditions"),
				fmt.Sprintf("updates may not remove a condition of type %q", t)))
		}
	}
	return errs
}

// keptDecision refuses to decide otherwise than through /approval.
func keptDecision(new, old *certificatesv1.CertificateSigningRequest) field.ErrorList {
	errs, path := keptConditions(new, old), field.NewPath("status", "conditions")
	for _, t := range []certificatesv1.RequestConditionType{certificatesv1.CertificateApproved,
		certificatesv1.CertificateDenied} {
		was, is := conditionsOf(old, t), conditionsOf(new, t)
		switch {
		case len(is) > len(was):
			errs = append(errs, field.Forbidden(path, fmt.Sprintf("updates may not add a condition of type %q", t)))
		case len(is) == len(was) && !apiequality.Semantic.DeepEqual(was, is):
			errs = append(errs, field.Forbidden(path,
				fmt.Sprintf("updates may not modify a condition of type %q\n%v", t,
					diff.Diff(checks.Unversioned(was), checks.Unversioned(is)))))
		}
	}
	return errs
}

func parseRequest(data []byte) error {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return errors.New("PEM block type must be CERTIFICATE REQUEST")
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return err
	}
	return request.CheckSignature()
}

// parseChain checks certificates, if there are any.
func parseChain(data []byte) error {
	if len(data) == 0 {
		return nil
	}
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
		certificates, err := x509.ParseCertificates(block.Bytes)
		if err != nil {
			return err
		}
		if len(certificates) == 0 {
			return errors.New("found CERTIFICATE PEM block containing 0 certificates")
		}
		n++
	}
	if n == 0 {
		return errors.New("must contain at least one CERTIFICATE PEM block")
	}
	return nil
}
