package apiserver

import (
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/util/cert"

	"quintet.dev/quintet/internal/certs"
)

// tlsConfig asks clients for a certificate, where one can be known, but leaves it to authentication to judge it.
func (s *Server) tlsConfig() (*tls.Config, error) {
	out, err := s.servedTLS()
	if err != nil || s.authn.ClientCA() == nil && s.authn.RequestHeaderCA() == nil {
		return out, err
	}
	asking := out.Clone()
	asking.ClientAuth = tls.RequestClientCert
	out.GetConfigForClient = certs.Asking(asking, s.authn.ClientCA, s.authn.RequestHeaderCA)
	return out, nil
}

func (s *Server) servedTLS() (*tls.Config, error) {
	out, err := s.config.Serving.Handshakes.TLS()
	if err != nil {
		return nil, err
	}
	if out.GetCertificate, err = s.certificate(); err != nil || len(s.config.Serving.SNI) == 0 {
		return out, err
	}
	named, err := newNames(s.config.Serving.SNI, out.GetCertificate, s.config.Clock)
	if err != nil {
		return nil, err
	}
	out.GetCertificate = named.get
	return out, nil
}

// certificate is the one for hosts that have none of their own.
func (s *Server) certificate() (func(*tls.ClientHelloInfo) (*tls.Certificate, error), error) {
	always := func(c tls.Certificate) func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		return func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &c, nil }
	}
	switch {
	case s.config.Certificate != nil:
		return always(*s.config.Certificate), nil
	case s.config.TLSCertFile != "":
		files, err := certs.Follow("--tls-cert-file, --tls-private-key-file", s.config.TLSCertFile, s.config.TLSKeyFile, s.config.Clock)
		return files.Get, err
	case s.config.CertDir != "":
		certFile, keyFile := filepath.Join(s.config.CertDir, ownCertFile), filepath.Join(s.config.CertDir, ownKeyFile)
		if err := s.ensurePair(certFile, keyFile); err != nil {
			return nil, fmt.Errorf("--cert-dir: %w", err)
		}
		files, err := certs.Follow("--cert-dir", certFile, keyFile, s.config.Clock)
		return files.Get, err
	default:
		pair, err := s.ownPair()
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

// ensurePair makes a certificate unless there is one.
func (s *Server) ensurePair(certFile, keyFile string) error {
	if is, err := cert.CanReadCertAndKey(certFile, keyFile); is || err != nil {
		return err
	}
	pair, err := s.ownPair()
	if err != nil {
		return err
	}
	return keepPair(certFile, keyFile, pair)
}

// ownPair is a certificate that the server makes for itself, and that of its authority.
func (s *Server) ownPair() (certs.Pair, error) {
	ca, err := certs.NewAuthority("kube-apiserver-self-signed")
	if err != nil {
		return certs.Pair{}, err
	}
	hosts := []string{"localhost", "127.0.0.1", "::1", "kubernetes", "kubernetes.default", "kubernetes.default.svc", s.config.MachineAddress().String()}
	if s.config.AdvertiseAddress != nil {
		hosts = append(hosts, s.config.AdvertiseAddress.String())
	}
	sign := ca.Serving
	if s.config.Serving.Handshakes.RSA() {
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
