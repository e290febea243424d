package certs

import (
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/util/cert"
	"k8s.io/utils/clock"
)

// Kept follows the certificate of --cert-dir, dir/name.crt and dir/name.key. One that isn't there is made, and kept.
func Kept(dir, name string, clk clock.PassiveClock, made func() (Pair, error)) (*Files, error) {
	certFile, keyFile := filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	if err := ensure(certFile, keyFile, made); err != nil {
		return nil, fmt.Errorf("--cert-dir: %w", err)
	}
	return Follow("--cert-dir", certFile, keyFile, clk)
}

// ensure makes a certificate unless there is one.
func ensure(certFile, keyFile string, made func() (Pair, error)) error {
	if is, err := cert.CanReadCertAndKey(certFile, keyFile); is || err != nil {
		return err
	}
	pair, err := made()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(certFile), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(keyFile, pair.Key, 0o600); err != nil {
		return err
	}
	return os.WriteFile(certFile, pair.Cert, 0o644)
}
