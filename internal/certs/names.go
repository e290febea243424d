package certs

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/component-base/cli/flag"
	"k8s.io/utils/clock"
	netutils "k8s.io/utils/net"
)

// Names are the certificates for some host names, besides the one for all others.
type Names struct {
	exact map[string]*Files // host names and addresses in lower case, and "*" before the rest of a name
	other GetFunc
}

// NewNames reads the certificates. What is said to be a certificate's name goes before what it says itself, and the
// first of two certificates before the second.
func NewNames(pairs []flag.NamedCertKey, other GetFunc, c clock.PassiveClock) (*Names, error) {
	out := &Names{exact: map[string]*Files{}, other: other}
	own := map[string]*Files{}
	for _, named := range pairs {
		pair, err := Follow("--tls-sni-cert-key", named.CertFile, named.KeyFile, c)
		if err != nil {
			return nil, err
		}
		if len(named.Names) > 0 {
			addNames(out.exact, named.Names, pair)
			continue
		}
		leaf, err := x509.ParseCertificate(pair.Leaf())
		if err != nil {
			return nil, err
		}
		addNames(own, ownNames(leaf), pair)
	}
	for name, pair := range own {
		addNames(out.exact, []string{name}, pair)
	}
	return out, nil
}

// ownNames are those that a certificate says itself: no addresses, as clients name none when they ask for a host.
func ownNames(leaf *x509.Certificate) []string {
	name := leaf.Subject.CommonName
	isHost := name == "*" || len(validation.IsDNS1123Subdomain(strings.TrimPrefix(name, "*."))) == 0
	if netutils.ParseIPSloppy(name) != nil || !isHost {
		return leaf.DNSNames
	}
	return append([]string{name}, leaf.DNSNames...)
}

func addNames(to map[string]*Files, names []string, pair *Files) {
	for _, name := range names {
		if name = strings.ToLower(name); to[name] == nil {
			to[name] = pair
		}
	}
}

// Get chooses by the name that the client asks for, or else by the address that it found.
func (n *Names) Get(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	name := strings.ToLower(strings.TrimSuffix(hello.ServerName, "."))
	if name == "" && hello.Conn != nil {
		name, _, _ = net.SplitHostPort(hello.Conn.LocalAddr().String())
	}
	first, _, _ := strings.Cut(name, ".")
	for _, key := range []string{name, "*" + strings.TrimPrefix(name, first)} {
		if pair := n.exact[key]; pair != nil {
			return pair.Get(hello)
		}
	}
	return n.other(hello)
}

// GetFunc chooses a certificate for a client, as tls.Config.GetCertificate does.
type GetFunc = func(*tls.ClientHelloInfo) (*tls.Certificate, error)
