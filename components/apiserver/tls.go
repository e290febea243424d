package apiserver

import (
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/util/cert"

	"quintet.dev/quintet/components/apiserver/authn"
	"quintet.dev/quintet/components/apiserver/options"
	"quintet.dev/quintet/internal/certs"
)

// tlsConfig requests a certificate from clients, where one can be verified, but leaves the verification to
// authentication.
func tlsConfig(config *options.Config, by *authn.Chain) (*tls.Config, error) {
	out, err := servedTLS(config)
	if err != nil || by.ClientCA() == nil && by.RequestHeaderCA() == nil {
		return out, err
	}
	asking := out.Clone()
	asking.ClientAuth = tls.RequestClientCert
	out.GetConfigForClient = certs.Asking(asking, by.ClientCA, by.RequestHeaderCA)
	return out, nil
}

func servedTLS(config *options.Config) (*tls.Config, error) {
	out, err := config.Serving.Handshakes.TLS()
	if err != nil {
		return nil, err
	}
	if out.GetCertificate, err = servingCertificate(config); err != nil || len(config.Serving.SNI) == 0 {
		return out, err
	}
	named, err := newNames(config.Serving.SNI, out.GetCertificate, config.Clock)
	if err != nil {
		return nil, err
	}
	out.GetCertificate = named.get
	return out, nil
}

// servingCertificate is the one for hosts that have none of their own.
func servingCertificate(config *options.Config) (certificateFunc, error) {
	always := func(c tls.Certificate) certificateFunc {
		return func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &c, nil }
	}
	switch {
	case config.Certificate != nil:
		return always(*config.Certificate), nil
	case config.TLSCertFile != "":
		const flags = "--tls-cert-file, --tls-private-key-file"
		files, err := certs.Follow(flags, config.TLSCertFile, config.TLSKeyFile, config.Clock)
		return files.Get, err
	case config.CertDir != "":
		certFile, keyFile := ownFiles(config.CertDir)
		if err := ensurePair(config, certFile, keyFile); err != nil {
			return nil, fmt.Errorf("--cert-dir: %w", err)
		}
		files, err := certs.Follow("--cert-dir", certFile, keyFile, config.Clock)
		return files.Get, err
	default:
		pair, err := ownPair(config)
		if err != nil {
			return nil, err
		}
		own, err := tls.X509KeyPair(pair.Cert, pair.Key)
		return always(own), err
	}
}

// The files of CertDir.
const (
	ownCertFile = "apiserver.crt"
	ownKeyFile  = "apiserver.key"
)

func ownFiles(dir string) (certFile, keyFile string) {
	return filepath.Join(dir, ownCertFile), filepath.Join(dir, ownKeyFile)
}

// ensurePair makes a certificate unless there is one.
func ensurePair(config *options.Config, certFile, keyFile string) error {
	if is, err := cert.CanReadCertAndKey(certFile, keyFile); is || err != nil {
		return err
	}
	pair, err := ownPair(config)
	if err != nil {
		return err
	}
	return keepPair(certFile, keyFile, pair)
}

// ownPair is a certificate that the server makes for itself, and that of its authority.
func ownPair(config *options.Config) (certs.Pair, error) {
	ca, err := certs.NewAuthority("kube-apiserver-self-signed")
	if err != nil {
		return certs.Pair{}, err
	}
	hosts := []string{
		"localhost", "127.0.0.1", "::1", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
		config.MachineAddress().String(),
	}
	if config.AdvertiseAddress != nil {
		hosts = append(hosts, config.AdvertiseAddress.String())
	}
	sign := ca.Serving
	if config.Serving.Handshakes.RSA() {
		sign = ca.ServingRSA
	}
	pair, err := sign("kube-apiserver", hosts...)
	pair.Cert = append(pair.Cert, ca.Cert...)
	return pair, err
}

func keepPair(certFile, keyFile string, pair certs.Pair) error {
	if err := os.MkdirAll(filepath.Dir(certFile), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(keyFile, pair.Key, 0o600); err != nil {
		return err
	}
	return os.WriteFile(certFile, pair.Cert, 0o644)
}
