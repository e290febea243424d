package certs

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// Recheck is how long a certificate of Files is used before the files are looked at again.
const Recheck = time.Second

// Files are a serving certificate that follows its files. Files that become invalid leave the last valid pair in use.
// Connections keep the certificate that they began with. It is safe for concurrent use.
type Files struct {
	flags             string
	certFile, keyFile string
	clock             clock.PassiveClock

	mu        sync.Mutex
	cert, key []byte
	pair      *tls.Certificate
	checked   time.Time
}

// Serving follows the files of --tls-cert-file and --tls-private-key-file; nil if neither is given.
func Serving(certFile, keyFile string, clk clock.PassiveClock) (*Files, error) {
	if certFile == "" && keyFile == "" {
		return nil, nil
	}
	if certFile == "" || keyFile == "" {
		return nil, errors.New("--tls-cert-file and --tls-private-key-file go together")
	}
	return Follow("--tls-cert-file, --tls-private-key-file", certFile, keyFile, clk)
}

// Follow reads the files (PEM), which errors name together with the flags that named them.
func Follow(flags, certFile, keyFile string, clk clock.PassiveClock) (*Files, error) {
	f := &Files{flags: flags, certFile: certFile, keyFile: keyFile, clock: clk}
	return f, f.load()
}

// Get is for tls.Config.GetCertificate.
func (f *Files) Get(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.clock.Since(f.checked) >= Recheck {
		if err := f.load(); err != nil {
			klog.FromContext(hello.Context()).Error(err, "Keeping the last serving certificate that could be read")
		}
	}
	return f.pair, nil
}

// Leaf is the certificate in use, in DER.
func (f *Files) Leaf() []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pair.Certificate[0]
}

// load is called with f.mu held, or before others know f.
func (f *Files) load() error {
	f.checked = f.clock.Now()
	fail := func(err error) error {
		return fmt.Errorf("%s: certificate %s, key %s: %w", f.flags, f.certFile, f.keyFile, err)
	}
	cert, err := os.ReadFile(f.certFile)
	if err != nil {
		return fail(err)
	}
	key, err := os.ReadFile(f.keyFile)
	if err != nil {
		return fail(err)
	}
	if f.pair != nil && bytes.Equal(cert, f.cert) && bytes.Equal(key, f.key) {
		return nil
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return fail(err)
	}
	f.cert, f.key, f.pair = cert, key, &pair
	return nil
}
