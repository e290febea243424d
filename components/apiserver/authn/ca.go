package authn

import (
	"bytes"
	"context"
	cryptox509 "crypto/x509"
	"fmt"
	"os"
	"sync/atomic"

	"k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/client-go/util/cert"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// caFile is a bundle of certificates that follows its file. A file that turns bad leaves the last good one in use.
type caFile struct {
	path  string
	clock clock.WithTicker
	now   atomic.Pointer[caBundle]
}

type caBundle struct {
	pem  []byte
	pool *cryptox509.CertPool
}

func newCAFile(path string, clk clock.WithTicker) (*caFile, error) {
	f := &caFile{path: path, clock: clk}
	return f, f.load()
}

func (f *caFile) load() error {
	content, err := os.ReadFile(f.path)
	if err != nil {
		return err
	}
	if b := f.now.Load(); b != nil && bytes.Equal(b.pem, content) {
		return nil
	}
	certs, err := cert.ParseCertsPEM(content)
	if err != nil {
		return fmt.Errorf("%s holds no usable certificates: %w", f.path, err)
	}
	pool := cryptox509.NewCertPool()
	for _, c := range certs {
		pool.AddCert(c)
	}
	f.now.Store(&caBundle{pem: content, pool: pool})
	return nil
}

func (f *caFile) run(ctx context.Context) error {
	ticker := f.clock.NewTicker(reloadEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
			if err := f.load(); err != nil {
				klog.FromContext(ctx).Error(err, "Keeping the last certificates that could be read", "file", f.path)
			}
		}
	}
}

// verifyOptions implements x509.VerifyOptionFunc.
func (f *caFile) verifyOptions() (cryptox509.VerifyOptions, bool) {
	options := x509.DefaultVerifyOptions()
	options.Roots = f.now.Load().pool
	return options, true
}

func (f *caFile) bundle() []byte {
	if f == nil {
		return nil
	}
	return f.now.Load().pem
}

// allowedNames implements x509.StringSliceProvider; empty allows every name.
type allowedNames []string

func (a allowedNames) Value() []string { return a }
