// Package certs makes the certificates of a test cluster: authorities, serving and client certificates, and
// service-account key pairs. Keys are ECDSA P-256 unless asked for otherwise: they are made in microseconds, which
// start-up time is made of.
package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"

	"k8s.io/client-go/util/keyutil"
)

// lifetime is long enough for any test cluster; the start lies in the past to forgive skewed clocks.
const (
	lifetime = 365 * 24 * time.Hour
	backdate = time.Hour
)

// Pair is a certificate and its private key, both PEM.
type Pair struct {
	Cert []byte
	Key  []byte
}

// Authority signs certificates. It is safe for concurrent use.
type Authority struct {
	Pair
	cert     *x509.Certificate
	key      *ecdsa.PrivateKey
	from, to time.Time // what it signs is valid
}

// NewAuthority makes a self-signed authority.
func NewAuthority(commonName string) (*Authority, error) {
	return NewAuthorityFor(commonName, time.Time{}, time.Time{})
}

// NewAuthorityFor makes a self-signed authority that is valid from and to the given times, as is what it signs. Zero
// times are an hour before a certificate is made, and a year after.
func NewAuthorityFor(commonName string, from, to time.Time) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template, err := newTemplate(pkix.Name{CommonName: commonName}, key.Public(), from, to)
	if err != nil {
		return nil, err
	}
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	authority, err := assemble(der, key)
	if err != nil {
		return nil, err
	}
	authority.from, authority.to = from, to
	return authority, nil
}

func assemble(der []byte, key *ecdsa.PrivateKey) (*Authority, error) {
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	pair, err := encode(der, key)
	if err != nil {
		return nil, err
	}
	return &Authority{Pair: pair, cert: cert, key: key}, nil
}

// Client signs a client certificate: user is the common name, groups the organizations
// (https://kubernetes.io/docs/reference/access-authn-authz/authentication/#x509-client-certificates).
func (a *Authority) Client(user string, groups ...string) (Pair, error) {
	return a.sign(pkix.Name{CommonName: user, Organization: groups}, nil, x509.ExtKeyUsageClientAuth)
}

// Serving signs a certificate for a server reached under hosts, each a DNS name or an IP address.
func (a *Authority) Serving(commonName string, hosts ...string) (Pair, error) {
	return a.sign(pkix.Name{CommonName: commonName}, hosts, x509.ExtKeyUsageServerAuth)
}

// ServingRSA is Serving with a key of the old kind, which takes a moment to make.
func (a *Authority) ServingRSA(commonName string, hosts ...string) (Pair, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return Pair{}, err
	}
	return a.certify(key, pkix.Name{CommonName: commonName}, hosts, x509.ExtKeyUsageServerAuth)
}

// Peer signs a certificate that serves and dials, as members of etcd need.
func (a *Authority) Peer(commonName string, hosts ...string) (Pair, error) {
	return a.sign(pkix.Name{CommonName: commonName}, hosts, x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth)
}

func (a *Authority) sign(subject pkix.Name, hosts []string, usages ...x509.ExtKeyUsage) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, err
	}
	return a.certify(key, subject, hosts, usages...)
}

func (a *Authority) certify(key crypto.Signer, subject pkix.Name, hosts []string,
	usages ...x509.ExtKeyUsage) (Pair, error) {
	template, err := newTemplate(subject, key.Public(), a.from, a.to)
	if err != nil {
		return Pair{}, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment
	template.ExtKeyUsage = usages
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return Pair{}, err
	}
	return encode(der, key)
}

// SigningKey makes the key pair that signs service-account tokens: Key is the private key, Cert the public key.
func SigningKey() (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, err
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return Pair{}, err
	}
	pair, err := encode(nil, key)
	pair.Cert = pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
	return pair, err
}

func newTemplate(subject pkix.Name, public crypto.PublicKey, from, to time.Time) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return nil, err
	}
	id := sha256.Sum256(der)
	now := time.Now()
	if from.IsZero() {
		from = now.Add(-backdate)
	}
	if to.IsZero() {
		to = now.Add(lifetime)
	}
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      subject,
		SubjectKeyId: id[:20],
		NotBefore:    from,
		NotAfter:     to,
	}, nil
}

func encode(der []byte, key crypto.PrivateKey) (Pair, error) {
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return Pair{}, err
	}
	pair := Pair{Key: keyPEM}
	if der != nil {
		pair.Cert = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	}
	return pair, nil
}

// LoadAuthority is an authority that NewAuthority made, of its certificate and key.
func LoadAuthority(pair Pair) (*Authority, error) {
	block, _ := pem.Decode(pair.Cert)
	if block == nil {
		return nil, errors.New("the authority's certificate is no PEM")
	}
	parsed, err := keyutil.ParsePrivateKeyPEM(pair.Key)
	if err != nil {
		return nil, err
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("the authority's key is a %T; want one of ECDSA", parsed)
	}
	return assemble(block.Bytes, key)
}
