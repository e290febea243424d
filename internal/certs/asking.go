package certs

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"sync"
)

// Asking is for tls.Config.GetConfigForClient: it is config, with the names of the authorities in bundles (PEM, which
// may change, and be nil) for clients to choose their certificates by. A client without a matching certificate sends
// none.
func Asking(config *tls.Config, bundles ...func() []byte) func(*tls.ClientHelloInfo) (*tls.Config, error) {
	var mu sync.Mutex
	var known []byte
	return func(*tls.ClientHelloInfo) (*tls.Config, error) {
		var now []byte
		for _, bundle := range bundles {
			now = append(append(now, bundle()...), '\n')
		}
		mu.Lock()
		defer mu.Unlock()
		if config.ClientCAs == nil || !bytes.Equal(now, known) {
			config = config.Clone() // the one before may be in use
			config.ClientCAs = x509.NewCertPool()
			config.ClientCAs.AppendCertsFromPEM(now)
			known = now
		}
		return config, nil
	}
}
