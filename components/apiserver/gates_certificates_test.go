package apiserver_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/asn1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"quintet.dev/quintet/components/apiserver/options"
	"quintet.dev/quintet/internal/certs"
)

// TestGatesOfCertificates: a node shows a certificate with a UID, and asks for one of another node's name.
func TestGatesOfCertificates(t *testing.T) {
	authority, err := certs.NewAuthority("nodes")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, authority.Cert, 0o600); err != nil {
		t.Fatal(err)
	}
	shown := withUID(t, authority, "system:node:n1", "7")
	for _, usual := range []bool{true, false} {
		f := start(t, func(c *options.Config) {
			c.ClientCAFile, c.EnableAdmission = file, []string{"NodeRestriction"}
			c.FeatureGates = map[string]bool{"AllowParsingUserUIDFromCertAuth": usual,
				"AllowInsecureKubeletCertificateSigningRequests": !usual}
		})
		node := f.clientOf(t, &rest.Config{Host: "https://" + f.server.Addr().String(), TLSClientConfig: shown})
		me, err := node.AuthenticationV1().SelfSubjectReviews().Create(t.Context(),
			&authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if want := map[bool]string{true: "7"}[usual]; me.Status.UserInfo.Username != "system:node:n1" ||
			me.Status.UserInfo.UID != want {
			t.Errorf("%v: %+v, want UID %q", usual, me.Status.UserInfo, want)
		}
		request := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "c"},
			Spec: certificatesv1.CertificateSigningRequestSpec{
				SignerName: certificatesv1.KubeletServingSignerName, Request: asking(t, "system:node:n2"),
				Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
			}}
		_, err = node.CertificatesV1().CertificateSigningRequests().Create(t.Context(), request, metav1.CreateOptions{})
		if apierrors.IsForbidden(err) != usual || err != nil && !usual {
			t.Errorf("%v: asking for a certificate of another node: %v", usual, err)
		}
	}
}

// withUID is what a user with a UID shows.
func withUID(t *testing.T, authority *certs.Authority, name, uid string) rest.TLSClientConfig {
	t.Helper()
	ca, err := tls.X509KeyPair(authority.Cert, authority.Key)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(7), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		Subject: pkix.Name{CommonName: name, Organization: []string{"system:nodes"},
			ExtraNames: []pkix.AttributeTypeAndValue{{Type: asn1.X509UID(), Value: uid}}},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.Leaf, key.Public(), ca.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return rest.TLSClientConfig{
		Insecure: true,
		CertData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		KeyData:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	}
}

// asking is a request for a node's serving certificate.
func asking(t *testing.T, name string) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: name, Organization: []string{"system:nodes"}}, DNSNames: []string{"n2"},
	}, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}
