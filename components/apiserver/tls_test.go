package apiserver

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/apiserver/options"
	"quintet.dev/quintet/internal/certs"
)

// TestServingCertificateFollowsItsFiles: a renewed certificate is served without a restart, a broken one is not.
func TestServingCertificateFollowsItsFiles(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	ca, err := certs.NewAuthority("ca")
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string) {
		t.Helper()
		pair, err := ca.Serving(name, "localhost")
		if err != nil {
			t.Fatal(err)
		}
		if err := keepPair(certFile, keyFile, pair); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	clk := testingclock.NewFakeClock(time.Unix(1700000000, 0))
	s := &options.Config{TLSCertFile: certFile, TLSKeyFile: keyFile, Clock: clk}
	config, err := servedTLS(s)
	if err != nil {
		t.Fatal(err)
	}
	served := func() string { return servedBy(t, config, &tls.Config{}).Subject.CommonName }
	write("two")
	if got := served(); got != "one" {
		t.Errorf("at first: %s", got)
	}
	clk.Step(certs.Recheck)
	if got := served(); got != "two" {
		t.Errorf("after the renewal: %s", got)
	}
	if err := os.WriteFile(keyFile, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	clk.Step(certs.Recheck)
	if got := served(); got != "two" {
		t.Errorf("with a broken key: %s", got)
	}
	if _, err := servedTLS(s); err == nil {
		t.Error("a server started with a broken key")
	}
}

// keepPair writes a certificate and its key.
func keepPair(certFile, keyFile string, pair certs.Pair) error {
	return errors.Join(os.WriteFile(keyFile, pair.Key, 0o600), os.WriteFile(certFile, pair.Cert, 0o600))
}

// servedBy is the certificate that a server shows to a client.
func servedBy(t *testing.T, server, client *tls.Config) *x509.Certificate {
	t.Helper()
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	go func() { _ = tls.Server(far, server).Handshake() }()
	client.InsecureSkipVerify = true
	asking := tls.Client(near, client)
	if err := asking.Handshake(); err != nil {
		t.Fatal(err)
	}
	return asking.ConnectionState().PeerCertificates[0]
}

// TestOwnCertificateFollowsItsFiles: one that the server made itself can be replaced without a restart, and stays when
// half of it is lost.
func TestOwnCertificateFollowsItsFiles(t *testing.T) {
	dir, clk := t.TempDir(), testingclock.NewFakeClock(time.Unix(1700000000, 0))
	s := &options.Config{CertDir: dir, Clock: clk}
	config, err := servedTLS(s)
	if err != nil {
		t.Fatal(err)
	}
	own := servedBy(t, config, &tls.Config{})
	again, err := servedTLS(s)
	if err != nil || !servedBy(t, again, &tls.Config{}).Equal(own) {
		t.Errorf("another certificate after a restart, %v", err)
	}
	ca, err := certs.NewAuthority("ca")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := ca.Serving("another", "localhost")
	if err != nil {
		t.Fatal(err)
	}
	keyFile := filepath.Join(dir, "apiserver.key")
	if err := keepPair(filepath.Join(dir, "apiserver.crt"), keyFile, pair); err != nil {
		t.Fatal(err)
	}
	clk.Step(certs.Recheck)
	if got := servedBy(t, config, &tls.Config{}).Subject.CommonName; got != "another" {
		t.Errorf("got %s", got)
	}
	if err := os.Remove(keyFile); err != nil {
		t.Fatal(err)
	}
	if _, err := servedTLS(s); err == nil ||
		err.Error() != "--cert-dir: error reading "+keyFile+", certificate and key must be supplied as a pair" {
		t.Errorf("without its key: %v", err)
	}
}

// TestOwnCertificateFitsCipherSuites: suites that want a key of RSA get one.
func TestOwnCertificateFitsCipherSuites(t *testing.T) {
	s := &options.Config{Clock: testingclock.NewFakeClock(time.Unix(1700000000, 0))}
	s.Serving.Handshakes.CipherSuites = []string{"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
		"TLS_RSA_WITH_AES_256_CBC_SHA"}
	config, err := servedTLS(s)
	if err != nil {
		t.Fatal(err)
	}
	got := servedBy(t, config,
		&tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_RSA_WITH_AES_256_CBC_SHA}})
	if got.PublicKeyAlgorithm != x509.RSA {
		t.Errorf("a key of %v", got.PublicKeyAlgorithm)
	}
}
