package apiserver

import (
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"

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
	s := &Server{config: Config{TLSCertFile: certFile, TLSKeyFile: keyFile, Clock: clk}}
	config, err := s.servedTLS()
	if err != nil {
		t.Fatal(err)
	}
	served := func() string {
		t.Helper()
		near, far := net.Pipe()
		defer near.Close()
		defer far.Close()
		go func() { _ = tls.Server(far, config).Handshake() }()
		client := tls.Client(near, &tls.Config{InsecureSkipVerify: true})
		if err := client.Handshake(); err != nil {
			t.Fatal(err)
		}
		return client.ConnectionState().PeerCertificates[0].Subject.CommonName
	}
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
	if _, err := s.servedTLS(); err == nil {
		t.Error("a server started with a broken key")
	}
}
