package certificates

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// grants allows a verb on the signers named.
type grants map[string][]string

func (g grants) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	for _, name := range g[a.GetVerb()] {
		if a.GetResource() == "signers" && a.GetAPIGroup() == "certificates.k8s.io" && a.GetName() == name {
			return authorizer.DecisionAllow, "", nil
		}
	}
	return authorizer.DecisionNoOpinion, "", nil
}

func csr(signer string, request []byte) *certificatesv1.CertificateSigningRequest {
	return &certificatesv1.CertificateSigningRequest{
		Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: signer, Request: request}}
}

func record(obj, old *certificatesv1.CertificateSigningRequest, sub string,
	op admission.Operation) admission.Attributes {
	return admission.NewAttributesRecord(obj, old, schema.GroupVersionKind{}, "", "csr",
		requests.WithVersion("v1"), sub, op, nil, false, &user.DefaultInfo{Name: "jane"})
}

func TestSigners(t *testing.T) {
	signed := csr("example.com/a", nil)
	signed.Status.Certificate = []byte("x")
	for _, tt := range []struct {
		name string
		g    grants
		want bool
	}{
		{"this signer", grants{"approve": {"example.com/a"}, "sign": {"example.com/a"}}, true},
		{"the whole domain", grants{"approve": {"example.com/*"}, "sign": {"example.com/*"}}, true},
		{"another signer", grants{"approve": {"example.com/b"}, "sign": {"example.com/b"}}, false},
		{"another domain", grants{"approve": {"example.org/*"}, "sign": {"example.org/*"}}, false},
		{"the other verb", grants{"approve": nil, "sign": nil, "get": {"example.com/a"}}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := NewApproval(tt.g).Validate(context.Background(),
				record(signed, csr("example.com/a", nil), "approval", admission.Update), nil)
			if (err == nil) != tt.want {
				t.Errorf("approval: %v", err)
			}
			err = NewSigning(tt.g).Validate(context.Background(),
				record(signed, csr("example.com/a", nil), "status", admission.Update), nil)
			if (err == nil) != tt.want {
				t.Errorf("signing: %v", err)
			}
		})
	}
	// The new object can't choose another signer to be authorized for.
	err := NewApproval(grants{"approve": {"example.com/mine"}}).Validate(context.Background(),
		record(csr("example.com/mine", nil), csr("example.com/a", nil), "approval", admission.Update), nil)
	if err == nil {
		t.Error("judged by the new object's signer")
	}
	if err := NewSigning(grants{}).Validate(context.Background(), record(signed, signed, "status", admission.Update),
		nil); err != nil {
		t.Errorf("an update that signs nothing: %v", err)
	}
}

func TestSubjectRestriction(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	request := func(groups ...string) []byte {
		der, err := x509.CreateCertificateRequest(rand.Reader,
			&x509.CertificateRequest{Subject: pkix.Name{CommonName: "x", Organization: groups}}, key)
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	}
	for _, tt := range []struct {
		name string
		csr  *certificatesv1.CertificateSigningRequest
		want bool
	}{
		{"ordinary", csr(certificatesv1.KubeAPIServerClientSignerName, request("devs")), true},
		{"masters", csr(certificatesv1.KubeAPIServerClientSignerName, request("devs", "system:masters")), false},
		{"masters of another signer", csr("example.com/a", request("system:masters")), true},
		{"no PEM", csr(certificatesv1.KubeAPIServerClientSignerName, []byte("x")), false},
	} {
		if err := NewSubjectRestriction().Validate(context.Background(), record(tt.csr, nil, "", admission.Create),
			nil); (err == nil) != tt.want {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}
