package apiserver

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

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
	default:
		own, err := s.ownCertificate()
		return always(own), err
	}
}

// The files of CertDir.
const (
	ownCertFile = "apiserver.crt"
	ownKeyFile  = "apiserver.key"
)

// ownCertificate is one that the server makes for itself, and keeps in CertDir.
func (s *Server) ownCertificate() (tls.Certificate, error) {
	certFile, keyFile := filepath.Join(s.config.CertDir, ownCertFile), filepath.Join(s.config.CertDir, ownKeyFile)
	if s.config.CertDir != "" {
		pair, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return pair, err
		}
	}
	ca, err := certs.NewAuthority("kube-apiserver-self-signed")
	if err != nil {
		return tls.Certificate{}, err
	}
	hosts := []string{"localhost", "127.0.0.1", "::1", "kubernetes", "kubernetes.default", "kubernetes.default.svc", firstAddress().String()}
	if s.config.AdvertiseAddress != nil {
		hosts = append(hosts, s.config.AdvertiseAddress.String())
	}
	pair, err := ca.Serving("kube-apiserver", hosts...)
	if err != nil {
		return tls.Certificate{}, err
	}
	pair.Cert = append(pair.Cert, ca.Cert...)
	if s.config.CertDir != "" {
		if err := keepPair(certFile, keyFile, pair); err != nil {
			return tls.Certificate{}, fmt.Errorf("--cert-dir: %w", err)
		}
	}
	return tls.X509KeyPair(pair.Cert, pair.Key)
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
