package certs

import (
	"crypto/tls"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
)

// Handshakes is what a server agrees to in handshakes. The zero value is Go's choice, from TLS 1.2 on.
type Handshakes struct {
	MinVersion   string
	CipherSuites []string
	Curves       []int32
	NoHTTP2      bool
}

// AddFlags binds upstream's flags.
func (h *Handshakes) AddFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&h.NoHTTP2, "disable-http2-serving", false, "Serve HTTP/1.1 only.")
	fs.StringVar(&h.MinVersion, "tls-min-version", "",
		"Oldest version of TLS that is spoken: "+strings.Join(cliflag.TLSPossibleVersions(), ", ")+".")
	fs.StringSliceVar(&h.CipherSuites, "tls-cipher-suites", nil,
		"Cipher suites up to TLS 1.2; by default Go's. Preferred are "+
			strings.Join(cliflag.PreferredTLSCipherNames(),
				", ")+"; insecure are "+strings.Join(cliflag.InsecureTLSCipherNames(), ", ")+".")
	fs.Int32SliceVar(&h.Curves, "tls-curve-preferences", nil,
		"Mechanisms of key exchange, as numbers of Go's tls.CurveID; by default Go's.")
}

// Validate names the flag that can't be.
func (h *Handshakes) Validate() error {
	_, err := h.TLS()
	return err
}

// RSA tells whether cipher suites were chosen, and some of them want a key of RSA from the server, up to TLS 1.2.
func (h *Handshakes) RSA() bool {
	return slices.ContainsFunc(h.CipherSuites, func(name string) bool { return strings.Contains(name, "_RSA_") })
}

// TLS makes the configuration of a server that has yet to get its certificates. An error names the flag.
func (h *Handshakes) TLS() (*tls.Config, error) {
	version, err := cliflag.TLSVersion(h.MinVersion)
	if err != nil {
		return nil, fmt.Errorf("--tls-min-version: %w", err)
	}
	out := &tls.Config{MinVersion: version, NextProtos: []string{"h2", "http/1.1"}}
	if h.NoHTTP2 {
		out.NextProtos = out.NextProtos[1:]
	}
	if len(h.CipherSuites) > 0 {
		if out.CipherSuites, err = cliflag.TLSCipherSuites(h.CipherSuites); err != nil {
			return nil, fmt.Errorf("--tls-cipher-suites: %w", err)
		}
	}
	if len(h.Curves) > 0 {
		if out.CurvePreferences, err = cliflag.TLSCurvePreferences(h.Curves); err != nil {
			return nil, fmt.Errorf("--tls-curve-preferences: %w", err)
		}
	}
	return out, nil
}
