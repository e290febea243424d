package certs

import (
	"crypto/tls"
	"crypto/x509/pkix"
	"encoding/asn1"
	"net"
	"slices"
	"testing"
)

// TestAsking: clients get the current authorities, and those with a certificate of another send none.
func TestAsking(t *testing.T) {
	authorities := map[string]*Authority{}
	for _, name := range []string{"clients", "proxies", "renewed"} {
		a, err := NewAuthority(name)
		if err != nil {
			t.Fatal(err)
		}
		authorities[name] = a
	}
	pair, err := authorities["clients"].Serving("server", "localhost")
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	clients := authorities["clients"].Cert
	server := &tls.Config{Certificates: []tls.Certificate{certificate}}
	asking := server.Clone()
	asking.ClientAuth = tls.RequestClientCert
	server.GetConfigForClient = Asking(asking, func() []byte { return clients },
		func() []byte { return authorities["proxies"].Cert }, func() []byte { return nil })
	asked := func() []string {
		t.Helper()
		var names []string
		near, far := net.Pipe()
		defer near.Close()
		defer far.Close()
		go func() { _ = tls.Server(far, server).Handshake() }()
		client := tls.Client(near, &tls.Config{InsecureSkipVerify: true,
			GetClientCertificate: func(info *tls.CertificateRequestInfo) (*tls.Certificate, error) {
				for _, raw := range info.AcceptableCAs {
					var rdn pkix.RDNSequence
					if _, err := asn1.Unmarshal(raw, &rdn); err != nil {
						t.Error(err)
					}
					var name pkix.Name
					name.FillFromRDNSequence(&rdn)
					names = append(names, name.CommonName)
				}
				return &tls.Certificate{}, nil
			}})
		if err := client.Handshake(); err != nil {
			t.Fatal(err)
		}
		return names
	}
	for range 2 {
		if got := asked(); !slices.Equal(got, []string{"clients", "proxies"}) {
			t.Errorf("asked for %q", got)
		}
	}
	clients = append(slices.Clone(authorities["renewed"].Cert), clients...)
	if got := asked(); !slices.Equal(got, []string{"renewed", "clients", "proxies"}) {
		t.Errorf("then for %q", got)
	}
}
