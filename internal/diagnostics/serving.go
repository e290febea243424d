package diagnostics

import (
	"crypto/tls"
	"errors"
	"net"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/internal/certs"
	"quintet.dev/quintet/internal/exposition"
	"quintet.dev/quintet/internal/ports"
)

// Serving is how a component's port is served, beyond its address. The zero value is upstream's default.
type Serving struct {
	CertFile, KeyFile string
	CertDir           string                 // where a certificate is kept that was made for want of files; "" keeps none
	SNI               []cliflag.NamedCertKey // certificates for some host names
	Handshakes        certs.Handshakes
	Streams           int // at a time of one connection of HTTP/2; 0 leaves it to Go
	Sharing           ports.Sharing
	Metrics           exposition.Flags // whose flags are bound apart
}

// AddFlags binds upstream's flags.
func (s *Serving) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&s.CertFile, "tls-cert-file", s.CertFile,
		"Certificate (PEM) of --secure-port; without one, a self-signed one is made.")
	fs.StringVar(&s.KeyFile, "tls-private-key-file", s.KeyFile, "Key (PEM) of --tls-cert-file.")
	fs.StringVar(&s.CertDir, "cert-dir", s.CertDir,
		"Directory in which a certificate is kept that is made for want of --tls-cert-file.")
	fs.Var(cliflag.NewNamedCertKeyArray(&s.SNI), "tls-sni-cert-key",
		"Certificate and key for some host names: cert,key[:name,...]; may be given several times.")
	s.Handshakes.AddFlags(fs)
	fs.IntVar(&s.Streams, "http2-max-streams-per-connection", s.Streams,
		"Bound of the requests at a time on one connection of HTTP/2; 0 leaves it to the server.")
	s.Sharing.AddFlags(fs)
}

// Validate names the flag that can't be.
func (s *Serving) Validate() error {
	var errs []error
	if s.Streams < 0 {
		errs = append(errs, errors.New("--http2-max-streams-per-connection can not be negative"))
	}
	_, err := s.Metrics.Exposition()
	return errors.Join(append(errs, err, s.Handshakes.Validate())...)
}

// Certificates reads the certificates of a component by the files it keeps one in; nil if there are none to be read.
func (s *Serving) Certificates(name string, clk clock.PassiveClock) (certs.GetFunc, error) {
	files, err := certs.Serving(s.CertFile, s.KeyFile, clk)
	if err == nil && files == nil && s.CertDir != "" {
		files, err = certs.Kept(s.CertDir, name, clk, func() (certs.Pair, error) { return s.selfSigned() })
	}
	if err != nil {
		return nil, err
	}
	var get certs.GetFunc
	if files != nil {
		get = files.Get
	}
	if len(s.SNI) == 0 {
		return get, nil
	}
	if get == nil {
		pair, err := s.selfSigned()
		if err != nil {
			return nil, err
		}
		own, err := tls.X509KeyPair(pair.Cert, pair.Key)
		if err != nil {
			return nil, err
		}
		get = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &own, nil }
	}
	named, err := certs.NewNames(s.SNI, get, clk)
	if err != nil {
		return nil, err
	}
	return named.Get, nil
}

// selfSigned makes a certificate for this machine and more.
func (s *Serving) selfSigned(more ...string) (certs.Pair, error) {
	ca, err := certs.NewAuthority("self-signed")
	if err != nil {
		return certs.Pair{}, err
	}
	sign := ca.Serving
	if s.Handshakes.RSA() {
		sign = ca.ServingRSA
	}
	return sign("localhost", append([]string{"localhost", "127.0.0.1"}, more...)...)
}

func (s *Serving) selfSignedAt(addr net.Addr) (*tls.Certificate, error) {
	host, _, err := net.SplitHostPort(addr.String())
	if err != nil {
		return nil, err
	}
	pair, err := s.selfSigned(host)
	if err != nil {
		return nil, err
	}
	certificate, err := tls.X509KeyPair(pair.Cert, pair.Key)
	return &certificate, err
}
