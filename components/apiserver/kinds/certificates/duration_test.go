package certificates

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/utils/ptr"
)

func TestDurations(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Unix(1700000000, 0)
	for _, c := range []struct {
		wanted, got     time.Duration
		before, honored bool
	}{
		{wanted: time.Hour, got: time.Hour, honored: true},
		{wanted: time.Hour, got: time.Hour + 8*time.Minute - time.Second, honored: true},
		{wanted: time.Hour, got: time.Hour + 8*time.Minute},
		{wanted: time.Hour, got: time.Hour - 8*time.Minute + time.Second, honored: true},
		{wanted: time.Hour, got: time.Hour - 8*time.Minute},
		{wanted: time.Hour, got: time.Hour, before: true, honored: true},
		{got: time.Hour},
	} {
		issued := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: start, NotAfter: start.Add(c.got)}
		der, err := x509.CreateCertificate(rand.Reader, issued, issued, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		old := &certificatesv1.CertificateSigningRequest{}
		if c.wanted > 0 {
			old.Spec.ExpirationSeconds = ptr.To(int32(c.wanted / time.Second))
		}
		new := old.DeepCopy()
		if IssuesDuration(new, old) {
			t.Errorf("%+v: without a certificate", c)
		}
		new.Status.Certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
		if c.before {
			old = new.DeepCopy()
		}
		if got := IssuesDuration(new, old); got != (c.wanted > 0 && !c.before) {
			t.Errorf("%+v: issued: %v", c, got)
		}
		if c.wanted > 0 && HonorsDuration(new) != c.honored {
			t.Errorf("%+v: honored: %v", c, !c.honored)
		}
		new.Status.Certificate = []byte("none")
		if c.wanted > 0 && HonorsDuration(new) {
			t.Errorf("%+v: what is no certificate", c)
		}
	}
}
