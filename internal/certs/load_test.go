package certs

import (
	"crypto/x509"
	"strings"
	"testing"
)

// TestLoadAuthority: one that was loaded signs as the one that was made.
func TestLoadAuthority(t *testing.T) {
	made, err := NewAuthority("a")
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := LoadAuthority(made.Pair)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := loaded.Client("jane")
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(made.cert)
	usages := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if _, err := parse(t, pair.Cert).Verify(x509.VerifyOptions{Roots: roots, KeyUsages: usages}); err != nil {
		t.Error(err)
	}
	rsa, err := made.ServingRSA("x")
	if err != nil {
		t.Fatal(err)
	}
	for want, bad := range map[string]Pair{"is no PEM": {Cert: []byte("x")}, "want one of ECDSA": rsa} {
		if _, err := LoadAuthority(bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
