package authn

import (
	"context"
	cryptox509 "crypto/x509"
	"fmt"
	"sync/atomic"

	"k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/client-go/util/cert"

	"quintet.dev/quintet/internal/follow"
)

// caFile is a bundle of certificates that follows its file.
type caFile struct {
	files *follow.Files
	now   atomic.Pointer[caBundle]
}

type caBundle struct {
	pem   []byte
	certs []*cryptox509.Certificate
	pool  *cryptox509.CertPool
}

func newCAFile(path string) (f *caFile, err error) {
	f = &caFile{}
	f.files, err = follow.New(func(_ context.Context, contents [][]byte) error {
		certs, err := cert.ParseCertsPEM(contents[0])
		if err != nil {
			return fmt.Errorf("%s holds no usable certificates: %w", path, err)
		}
		pool := cryptox509.NewCertPool()
		for _, c := range certs {
			pool.AddCert(c)
		}
		f.now.Store(&caBundle{pem: contents[0], certs: certs, pool: pool})
		return nil
	}, path)
	return f, err
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

// overlaps tells whether both bundles hold one certificate.
func (f *caFile) overlaps(other *caFile) bool {
	for _, a := range f.now.Load().certs {
		for _, b := range other.now.Load().certs {
			if a.Equal(b) {
				return true
			}
		}
	}
	return false
}
