package apiserver

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/internal/certs"
)

// tlsConfig asks clients for a certificate but leaves it to authentication to judge it.
func (s *Server) tlsConfig() (*tls.Config, error) {
	out, err := s.config.Serving.tls()
	if err != nil {
		return nil, err
	}
	out.ClientAuth = tls.RequestClientCert
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
		pair := &servingPair{flags: "--tls-cert-file, --tls-private-key-file", certFile: s.config.TLSCertFile, keyFile: s.config.TLSKeyFile, clock: s.config.Clock}
		return pair.get, pair.load()
	default:
		own, err := s.ownCertificate()
		return always(own), err
	}
}

// recheck is how long a serving certificate is used before its files are looked at again.
const recheck = 10 * time.Second

// servingPair is a certificate that follows its files. Files that turn bad leave the last good pair in use.
type servingPair struct {
	flags             string // that name the files
	certFile, keyFile string
	clock             clock.PassiveClock

	mu        sync.Mutex
	cert, key []byte
	pair      *tls.Certificate
	checked   time.Time
}

func (p *servingPair) get(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.clock.Since(p.checked) >= recheck {
		if err := p.load(); err != nil {
			klog.FromContext(hello.Context()).Error(err, "Keeping the last serving certificate that could be read")
		}
	}
	return p.pair, nil
}

// load is called with p.mu held, or before others know p.
func (p *servingPair) load() error {
	p.checked = p.clock.Now()
	fail := func(err error) error {
		return fmt.Errorf("%s: certificate %s, key %s: %w", p.flags, p.certFile, p.keyFile, err)
	}
	cert, err := os.ReadFile(p.certFile)
	if err != nil {
		return fail(err)
	}
	key, err := os.ReadFile(p.keyFile)
	if err != nil {
		return fail(err)
	}
	if p.pair != nil && bytes.Equal(cert, p.cert) && bytes.Equal(key, p.key) {
		return nil
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return fail(err)
	}
	p.cert, p.key, p.pair = cert, key, &pair
	return nil
}

// ownCertificate is one that the server makes for itself, and keeps in CertDir as apiserver.crt and apiserver.key.
func (s *Server) ownCertificate() (tls.Certificate, error) {
	certFile, keyFile := filepath.Join(s.config.CertDir, "apiserver.crt"), filepath.Join(s.config.CertDir, "apiserver.key")
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
