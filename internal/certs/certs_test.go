package certs

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"testing"
)

func parse(t *testing.T, data []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(data)
	if block == nil {
		t.Fatal("not PEM")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func TestCertificatesVerifyAgainstTheirAuthority(t *testing.T) {
	ca, err := NewAuthority("test-ca")
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(parse(t, ca.Cert))

	serving, err := ca.Serving("kube-apiserver", "localhost", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"localhost", "127.0.0.1"} {
		if _, err := parse(t, serving.Cert).Verify(x509.VerifyOptions{Roots: roots, DNSName: name}); err != nil {
			t.Errorf("serving certificate for %s: %v", name, err)
		}
	}
	if _, err := parse(t, serving.Cert).Verify(x509.VerifyOptions{Roots: roots, DNSName: "elsewhere"}); err == nil {
		t.Error("serving certificate is valid for a host that it does not name")
	}
	if _, err := tls.X509KeyPair(serving.Cert, serving.Key); err != nil {
		t.Error(err)
	}

	client, err := ca.Client("alice", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	cert := parse(t, client.Cert)
	if cert.Subject.CommonName != "alice" || cert.Subject.Organization[0] != "system:masters" {
		t.Errorf("subject = %v", cert.Subject)
	}
	if _, err := cert.Verify(x509.VerifyOptions{Roots: roots,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		t.Error(err)
	}
	if _, err := cert.Verify(x509.VerifyOptions{Roots: roots,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}); err == nil {
		t.Error("a client certificate must not serve")
	}
}
