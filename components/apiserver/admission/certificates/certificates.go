// Package certificates lets only users that are authorized for the signer approve and sign certificate requests, and
// keeps clients from asking for the group system:masters
// (https://kubernetes.io/docs/reference/access-authn-authz/certificate-signing-requests/).
package certificates

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Names of the plug-ins.
const (
	ApprovalName           = "CertificateApproval"
	SigningName            = "CertificateSigning"
	SubjectRestrictionName = "CertificateSubjectRestriction"
)

var requests = certificatesv1.Resource("certificatesigningrequests")

// Approval checks updates of the subresource approval.
type Approval struct {
	*admission.Handler
	authorizer authorizer.Authorizer
}

// Signing checks updates of the subresource status.
type Signing struct {
	*admission.Handler
	authorizer authorizer.Authorizer
}

// SubjectRestriction checks new requests.
type SubjectRestriction struct {
	*admission.Handler
}

var (
	_ admission.ValidationInterface = &Approval{}
	_ admission.ValidationInterface = &Signing{}
	_ admission.ValidationInterface = &SubjectRestriction{}
)

// NewApproval returns the plug-in.
func NewApproval(a authorizer.Authorizer) *Approval {
	return &Approval{admission.NewHandler(admission.Update), a}
}

// NewSigning returns the plug-in.
func NewSigning(a authorizer.Authorizer) *Signing {
	return &Signing{admission.NewHandler(admission.Update), a}
}

// NewSubjectRestriction returns the plug-in.
func NewSubjectRestriction() *SubjectRestriction {
	return &SubjectRestriction{admission.NewHandler(admission.Create)}
}

// Validate implements admission.ValidationInterface.
func (p *Approval) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != requests || a.GetSubresource() != "approval" {
		return nil
	}
	csr, ok := a.GetOldObject().(*certificatesv1.CertificateSigningRequest)
	if !ok {
		return apierrors.NewBadRequest(
			fmt.Sprintf("expected type CertificateSigningRequest, got: %T", a.GetOldObject()))
	}
	if !mayForSigner(ctx, p.authorizer, a.GetUserInfo(), "approve", csr.Spec.SignerName) {
		return admission.NewForbidden(a,
			fmt.Errorf("user not permitted to approve requests with signerName %q", csr.Spec.SignerName))
	}
	return nil
}

// Validate implements admission.ValidationInterface.
func (p *Signing) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != requests || a.GetSubresource() != "status" {
		return nil
	}
	old, ok := a.GetOldObject().(*certificatesv1.CertificateSigningRequest)
	if !ok {
		return apierrors.NewBadRequest(
			fmt.Sprintf("expected type CertificateSigningRequest, got: %T", a.GetOldObject()))
	}
	csr, ok := a.GetObject().(*certificatesv1.CertificateSigningRequest)
	if !ok {
		return apierrors.NewBadRequest(fmt.Sprintf("expected type CertificateSigningRequest, got: %T", a.GetObject()))
	}
	if bytes.Equal(old.Status.Certificate, csr.Status.Certificate) &&
		equality.Semantic.DeepEqual(old.Status.Conditions, csr.Status.Conditions) {
		return nil
	}
	if !mayForSigner(ctx, p.authorizer, a.GetUserInfo(), "sign", old.Spec.SignerName) {
		return admission.NewForbidden(a,
			fmt.Errorf("user not permitted to sign requests with signerName %q", old.Spec.SignerName))
	}
	return nil
}

// mayForSigner asks for the signer, then for all signers of its domain.
func mayForSigner(ctx context.Context, a authorizer.Authorizer, u user.Info, verb, signer string) bool {
	domain, _, _ := strings.Cut(signer, "/")
	for _, name := range []string{signer, domain + "/*"} {
		decision, _, err := a.Authorize(ctx, authorizer.AttributesRecord{
			User: u, Verb: verb, Name: name, APIGroup: certificatesv1.GroupName, APIVersion: "*", Resource: "signers",
			ResourceRequest: true,
		})
		if err == nil && decision == authorizer.DecisionAllow {
			return true
		}
	}
	return false
}

// Validate implements admission.ValidationInterface.
func (*SubjectRestriction) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != requests || a.GetSubresource() != "" {
		return nil
	}
	csr, ok := a.GetObject().(*certificatesv1.CertificateSigningRequest)
	if !ok {
		return apierrors.NewBadRequest(fmt.Sprintf("expected type CertificateSigningRequest, got: %T", a.GetObject()))
	}
	if csr.Spec.SignerName != certificatesv1.KubeAPIServerClientSignerName {
		return nil
	}
	block, _ := pem.Decode(csr.Spec.Request)
	if block == nil {
		return admission.NewForbidden(a, fmt.Errorf("failed to parse CSR: spec.request holds no PEM block"))
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return admission.NewForbidden(a, fmt.Errorf("failed to parse CSR: %w", err))
	}
	if slices.Contains(request.Subject.Organization, user.SystemPrivilegedGroup) {
		return admission.NewForbidden(a,
			fmt.Errorf("use of %s signer with %s group is not allowed", csr.Spec.SignerName,
				user.SystemPrivilegedGroup))
	}
	return nil
}
