package aggregation

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// identity is the client certificate by which extension servers know that a request comes through this server, and that
// its headers may be believed. It follows its files; files that turn bad leave the last good pair in use.
type identity struct {
	certFile, keyFile string
	clock             clock.WithTicker
	now               atomic.Pointer[keyPair]
}

// keyPair is nil inside an identity of which there is none.
type keyPair struct {
	cert, key []byte
	pair      tls.Certificate
}

func newIdentity(certFile, keyFile string, clk clock.WithTicker) (*identity, error) {
	id := &identity{certFile: certFile, keyFile: keyFile, clock: clk}
	if certFile == "" && keyFile == "" {
		return id, nil
	}
	if certFile == "" || keyFile == "" {
		return nil, errors.New("--proxy-client-cert-file and --proxy-client-key-file go together: give both, or neither")
	}
	_, err := id.load()
	return id, err
}

// Certificate is the client certificate now in use, nil if there is none.
func (a *Aggregator) Certificate() *tls.Certificate {
	if p := a.identity.now.Load(); p != nil {
		return &p.pair
	}
	return nil
}

// load reads the files, and reports whether they hold another pair than before.
func (id *identity) load() (changed bool, err error) {
	fail := func(err error) (bool, error) {
		return false, fmt.Errorf("--proxy-client-cert-file %s, --proxy-client-key-file %s: %w", id.certFile, id.keyFile,
			err)
	}
	cert, err := os.ReadFile(id.certFile)
	if err != nil {
		return fail(err)
	}
	key, err := os.ReadFile(id.keyFile)
	if err != nil {
		return fail(err)
	}
	if p := id.now.Load(); p != nil && bytes.Equal(p.cert, cert) && bytes.Equal(p.key, key) {
		return false, nil
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return fail(err)
	}
	id.now.Store(&keyPair{cert: cert, key: key, pair: pair})
	return true, nil
}

// reloadEvery is how often the files are looked at again.
const reloadEvery = 10 * time.Second

// run follows the files until ctx ends, and calls changed after each change.
func (id *identity) run(ctx context.Context, changed func()) {
	if id.certFile == "" {
		return
	}
	ticker := id.clock.NewTicker(reloadEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
		switch another, err := id.load(); {
		case err != nil:
			klog.FromContext(ctx).Error(err, "Failed to reload client certificate; keeping the last one")
		case another:
			changed()
		}
	}
}
