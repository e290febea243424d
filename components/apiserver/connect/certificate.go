package connect

import (
	"context"
	"crypto/tls"
	"sync/atomic"

	"quintet.dev/quintet/internal/follow"
)

// clientPair is a client certificate that follows its files.
type clientPair struct {
	files *follow.Files
	now   atomic.Pointer[tls.Certificate]
}

// newClientPair calls changed for each pair that comes into use.
func newClientPair(cert, key string, changed func()) (p *clientPair, err error) {
	p = &clientPair{}
	p.files, err = follow.New(func(_ context.Context, contents [][]byte) error {
		pair, err := tls.X509KeyPair(contents[0], contents[1])
		if err != nil {
			return err
		}
		p.now.Store(&pair)
		changed()
		return nil
	}, cert, key)
	return p, err
}

// get is a tls.Config's GetClientCertificate.
func (p *clientPair) get(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	return p.now.Load(), nil
}
