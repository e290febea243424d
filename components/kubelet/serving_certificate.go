package kubelet

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/certificate"
)

// getCertificate chooses the certificate of a handshake.
type getCertificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)

// servingCertificates gives the certificates of the kubelet's API: one that was given or that it signs itself, or with
// serverTLSBootstrap one that the API server has signed, which is renewed while the kubelet runs
// (https://kubernetes.io/docs/reference/access-authn-authz/kubelet-tls-bootstrapping/).
func (k *Kubelet) servingCertificates(ctx context.Context, group *errgroup.Group, client kubernetes.Interface,
	p *parts) (getCertificate, error) {
	if !k.config.ServerTLSBootstrap {
		own, err := k.servingCertificate(p)
		return func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return own, nil }, err
	}
	store, err := k.servingStore(p)
	if err != nil {
		return nil, err
	}
	manager, err := certificate.NewManager(&certificate.Config{
		Name:             "kubelet-server",
		Ctx:              &ctx,
		SignerName:       certificatesv1.KubeletServingSignerName,
		GetTemplate:      func() *x509.CertificateRequest { return servingTemplate(k.name, p.pods.HostIPs) },
		GetUsages:        servingUsages,
		CertificateStore: store,
		ClientsetFn:      func(*tls.Certificate) (kubernetes.Interface, error) { return client, nil },

		CertificateRotation: k.metrics.ServerRotation,
	})
	if err != nil {
		return nil, fmt.Errorf("serving certificate: %w", err)
	}
	k.metrics.Expires("server", func() time.Time { return expiry(manager.Current()) }, k.clock.Now)
	manager.Start()
	group.Go(func() error {
		<-ctx.Done()
		manager.Stop()
		return nil
	})
	return func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		if current := manager.Current(); current != nil {
			return current, nil
		}
		return nil, errors.New("no serving certificate available for the kubelet")
	}, nil
}

// servingStore keeps the certificate in files, or in memory for an engine that simulates them.
func (k *Kubelet) servingStore(p *parts) (certificate.Store, error) {
	c := &k.config
	if p.simulated.Files {
		return &memoryStore{}, nil
	}
	if err := os.MkdirAll(c.CertDir, 0o700); err != nil {
		return nil, fmt.Errorf("--cert-dir: %w", err)
	}
	store, err := certificate.NewFileStore("kubelet-server", c.CertDir, c.CertDir, c.TLSCertFile, c.TLSPrivateKeyFile)
	if err != nil {
		return nil, fmt.Errorf("--cert-dir: %w", err)
	}
	return store, nil
}

// servingTemplate is what the node asks to have signed: its name and addresses. It is nil, for later, without any.
func servingTemplate(node string, ips []string) *x509.CertificateRequest {
	request := &x509.CertificateRequest{
		Subject:  pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}},
		DNSNames: []string{node},
	}
	for _, ip := range ips {
		if parsed := net.ParseIP(ip); parsed != nil {
			request.IPAddresses = append(request.IPAddresses, parsed)
		}
	}
	if len(request.IPAddresses) == 0 {
		return nil
	}
	return request
}

func servingUsages(any) []certificatesv1.KeyUsage {
	return []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth}
}

// expiry is when a certificate ends to be valid; zero without one.
func expiry(c *tls.Certificate) time.Time {
	if c == nil || c.Leaf == nil {
		return time.Time{}
	}
	return c.Leaf.NotAfter
}

// memoryStore keeps a certificate as long as the process runs. It is safe for concurrent use.
type memoryStore struct {
	mu      sync.Mutex
	current *tls.Certificate
}

// Current implements certificate.Store.
func (s *memoryStore) Current() (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil {
		none := certificate.NoCertKeyError("no certificate was signed yet")
		return nil, &none
	}
	return s.current, nil
}

// Update implements certificate.Store.
func (s *memoryStore) Update(cert, key []byte) (*tls.Certificate, error) {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	if pair.Leaf, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = &pair
	return s.current, nil
}
