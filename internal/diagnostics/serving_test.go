package diagnostics

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/internal/certs"
)

// TestCertificates: a certificate that was made is kept, and one for a host goes before it.
func TestCertificates(t *testing.T) {
	dir, more := t.TempDir(), t.TempDir()
	ca, err := certs.NewAuthority("a")
	if err != nil {
		t.Fatal(err)
	}
	named, err := ca.Serving("named", "named.example")
	if err != nil {
		t.Fatal(err)
	}
	cert, key := filepath.Join(more, "c"), filepath.Join(more, "k")
	for file, data := range map[string][]byte{cert: named.Cert, key: named.Key} {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var s Serving
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	s.AddFlags(fs)
	if err := fs.Parse([]string{"--cert-dir", dir, "--tls-sni-cert-key", cert + "," + key}); err != nil {
		t.Fatal(err)
	}
	commonName := func(s Serving, host string) string {
		t.Helper()
		get, err := s.Certificates("program", clock.RealClock{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := get(&tls.ClientHelloInfo{ServerName: host})
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := x509.ParseCertificate(got.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		return leaf.Subject.CommonName + leaf.SerialNumber.String()
	}
	made := commonName(s, "other.example")
	if again := commonName(s, "other.example"); again != made {
		t.Errorf("made %s again as %s", made, again)
	}
	if got := commonName(s, "named.example"); got == made || got[:5] != "named" {
		t.Errorf("named: %s", got)
	}
	if _, err := os.Stat(filepath.Join(dir, "program.key")); err != nil {
		t.Error(err)
	}
	if get, err := (&Serving{}).Certificates("program", clock.RealClock{}); get != nil || err != nil {
		t.Error("a certificate without any file", err)
	}
}

// TestServingIsChecked: what can't be is named.
func TestServingIsChecked(t *testing.T) {
	for flag, s := range map[string]Serving{
		"--http2-max-streams-per-connection": {Streams: -1},
		"--tls-min-version":                  {Handshakes: certs.Handshakes{MinVersion: "x"}},
	} {
		if err := s.Validate(); err == nil {
			t.Errorf("%s is not checked", flag)
		}
	}
	if err := (&Serving{}).Validate(); err != nil {
		t.Error(err)
	}
}
