package apiserver

import (
	"crypto/tls"
	"path/filepath"

	"quintet.dev/quintet/components/apiserver/authn"
	"quintet.dev/quintet/components/apiserver/options"
	"quintet.dev/quintet/internal/certs"
)

// tlsConfig requests a certificate from clients, where one can be verified, but leaves the verification to
// authentication.
func tlsConfig(config *options.Config, by *authn.Chain) (*tls.Config, error) {
	out, err := servedTLS(config)
	if err != nil || by.ClientCA() == nil && by.RequestHeaderCA() == nil {
		return out, err
	}
	asking := out.Clone()
	asking.ClientAuth = tls.RequestClientCert
	out.GetConfigForClient = certs.Asking(asking, by.ClientCA, by.RequestHeaderCA)
	return out, nil
}

func servedTLS(config *options.Config) (*tls.Config, error) {
	out, err := config.Serving.Handshakes.TLS()
	if err != nil {
		return nil, err
	}
	if out.GetCertificate, err = servingCertificate(config); err != nil || len(config.Serving.SNI) == 0 {
		return out, err
	}
	named, err := certs.NewNames(config.Serving.SNI, out.GetCertificate, config.Clock)
	if err != nil {
		return nil, err
	}
	out.GetCertificate = named.Get
	return out, nil
}

// servingCertificate is the one for hosts that have none of their own.
func servingCertificate(config *options.Config) (certs.GetFunc, error) {
	always := func(c tls.Certificate) certs.GetFunc {
		return func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &c, nil }
	}
	switch {
	case config.Certificate != nil:
		return always(*config.Certificate), nil
	case config.TLSCertFile != "":
		const flags = "--tls-cert-file, --tls-private-key-file"
		files, err := certs.Follow(flags, config.TLSCertFile, config.TLSKeyFile, config.Clock)
		return files.Get, err
	case config.CertDir != "":
		files, err := certs.Kept(config.CertDir, ownName, config.Clock,
			func() (certs.Pair, error) { return ownPair(config) })
		if err != nil {
			return nil, err
		}
		return files.Get, nil
	default:
		pair, err := ownPair(config)
		if err != nil {
			return nil, err
		}
		own, err := tls.X509KeyPair(pair.Cert, pair.Key)
		return always(own), err
	}
}

// ownName is that of the files of CertDir.
const ownName = "apiserver"

func ownFiles(dir string) (certFile, keyFile string) {
	return filepath.Join(dir, ownName+".crt"), filepath.Join(dir, ownName+".key")
}

// ownPair is a certificate that the server makes for itself, and that of its authority.
func ownPair(config *options.Config) (certs.Pair, error) {
	ca, err := certs.NewAuthority("kube-apiserver-self-signed")
	if err != nil {
		return certs.Pair{}, err
	}
	hosts := []string{
		"localhost", "127.0.0.1", "::1", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
		config.MachineAddress().String(),
	}
	if config.AdvertiseAddress != nil {
		hosts = append(hosts, config.AdvertiseAddress.String())
	}
	sign := ca.Serving
	if config.Serving.Handshakes.RSA() {
		sign = ca.ServingRSA
	}
	pair, err := sign("kube-apiserver", hosts...)
	pair.Cert = append(pair.Cert, ca.Cert...)
	return pair, err
}
