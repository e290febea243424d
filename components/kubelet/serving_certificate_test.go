package kubelet

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	certutil "k8s.io/client-go/util/cert"
)

// Nothing is served before the request is approved; then the certificate that was signed is, and its end is told.
func TestServingCertificateIsRequested(t *testing.T) {
	client := fake.NewClientset()
	var address string
	r := begin(t, client, newEngine(), func(c *Config) {
		c.ServerTLSBootstrap, c.AnonymousAuth, c.AuthorizationMode = true, true, "AlwaysAllow"
		address = c.Listener.Addr().String()
	})
	var csr *certificatesv1.CertificateSigningRequest
	r.await("a request", func() bool {
		list, err := client.CertificatesV1().CertificateSigningRequests().List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) == 0 {
			return false
		}
		csr = &list.Items[0]
		return true
	})
	block, _ := pem.Decode(csr.Spec.Request)
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if csr.Spec.SignerName != "kubernetes.io/kubelet-serving" || request.Subject.CommonName != "system:node:n1" ||
		!slices.Equal(request.Subject.Organization, []string{"system:nodes"}) ||
		!slices.Equal(request.DNSNames, []string{"n1"}) || len(request.IPAddresses) == 0 ||
		!slices.Equal(csr.Spec.Usages, []certificatesv1.KeyUsage{"digital signature", "server auth"}) {
		t.Errorf("asks for %+v, %v, %v, %v", csr.Spec.SignerName, request.Subject, request.DNSNames, csr.Spec.Usages)
	}
	if conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true}); err == nil {
		_ = conn.Close()
		t.Error("it serves without a certificate")
	}
	authority, signed := sign(t, request)
	csr.Status.Certificate = signed
	csr.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved,
		Status: "True"}}
	if _, err := client.CertificatesV1().CertificateSigningRequests().UpdateStatus(t.Context(), csr,
		metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(authority)
	web := &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "n1"}}}
	var metrics string
	r.await("it serves with the certificate", func() bool {
		answer, err := web.Get("https://" + address + "/metrics")
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		metrics = string(body)
		return err == nil && answer.StatusCode == http.StatusOK
	})
	if !strings.Contains(metrics, "\nkubelet_certificate_manager_server_ttl_seconds 3") { // nearly an hour
		t.Error("the certificate's end is not told")
	}
}

// sign makes an authority that signs the request, and returns its certificate and that.
func sign(t *testing.T, request *x509.CertificateRequest) (authority *x509.Certificate, signed []byte) {
	t.Helper()
	now := time.Now()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, IsCA: true,
		NotBefore: now.Add(-time.Minute), NotAfter: now.Add(time.Hour), BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	if authority, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	der, err = x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: request.Subject, DNSNames: request.DNSNames,
		IPAddresses: request.IPAddresses, NotBefore: now.Add(-time.Minute), NotAfter: now.Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, authority, request.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return authority, pem.EncodeToMemory(&pem.Block{Type: certutil.CertificateBlockType, Bytes: der})
}

func TestServingTemplate(t *testing.T) {
	for _, tc := range []struct {
		ips  []string
		want []net.IP
	}{
		{nil, nil}, {[]string{"x"}, nil}, {[]string{"10.0.0.1", "fd00::1"}, []net.IP{net.ParseIP("10.0.0.1"),
			net.ParseIP("fd00::1")}},
	} {
		got := servingTemplate("n", tc.ips)
		if (got == nil) != (tc.want == nil) || got != nil && !slices.EqualFunc(got.IPAddresses, tc.want, net.IP.Equal) {
			t.Errorf("%v: %+v", tc.ips, got)
		}
	}
}
