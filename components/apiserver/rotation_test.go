package apiserver_test

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"testing"

	"quintet.dev/quintet/components/apiserver/options"
	"quintet.dev/quintet/internal/certs"
)

// one is a client that asks over one connection for as long as it can.
type one struct {
	http   *http.Client
	url    string
	header http.Header
	anew   int // connections that were opened
}

func (f *fixture) one(t *testing.T, pair certs.Pair, header http.Header) *one {
	t.Helper()
	certificate, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{
		ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true,
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				return &certificate, nil // also where its authority is not one of those asked for
			}},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &one{http: &http.Client{Transport: transport},
		url: "https://" + f.server.Addr().String() + "/api/v1/namespaces", header: header}
}

func (o *one) ask(t *testing.T) int {
	t.Helper()
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		if !info.Reused {
			o.anew++
		}
	}}
	r, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), http.MethodGet, o.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range o.header {
		r.Header[name] = values
	}
	answer, err := o.http.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, answer.Body)
	_ = answer.Body.Close()
	return answer.StatusCode
}

// TestAuthoritiesChange: when the authorities of clients and of proxies are others, so are those who may ask, also over
// connections that are open.
func TestAuthoritiesChange(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, content []byte) string {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name+".new", content, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(name+".new", name); err != nil {
			t.Fatal(err)
		}
		return name
	}
	authority := func(name string) *certs.Authority {
		t.Helper()
		a, err := certs.NewAuthority(name)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	client := func(a *certs.Authority, name string, groups ...string) certs.Pair {
		t.Helper()
		pair, err := a.Client(name, groups...)
		if err != nil {
			t.Fatal(err)
		}
		return pair
	}
	clients, proxies, nextClients, nextProxies := authority("clients"), authority("proxies"), authority("next clients"),
		authority("next proxies")
	f := start(t, func(c *options.Config) {
		c.ClientCAFile, c.RequestHeader.ClientCAFile = file("clients.crt", clients.Cert),
			file("proxies.crt", proxies.Cert)
		c.RequestHeader.UsernameHeaders, c.RequestHeader.GroupHeaders = []string{"X-Remote-User"},
			[]string{"X-Remote-Group"}
	})
	forAdmin := http.Header{"X-Remote-User": {"somebody"}, "X-Remote-Group": {"system:masters"}}
	direct, proxied := f.one(t, client(clients, "admin", "system:masters"), nil),
		f.one(t, client(proxies, "proxy"), forAdmin)
	later, laterProxied := f.one(t, client(nextClients, "admin", "system:masters"), nil),
		f.one(t, client(nextProxies, "proxy"), forAdmin)
	for what, c := range map[string]struct {
		of   *one
		want int
	}{"client": {direct, 200}, "proxy": {proxied, 200}, "client of later": {later, 401},
		"proxy of later": {laterProxied, 401}} {
		if got := c.of.ask(t); got != c.want {
			t.Fatalf("%s, at first: %d, want %d", what, got, c.want)
		}
	}
	file("clients.crt", nextClients.Cert)
	file("proxies.crt", nextProxies.Cert)
	eventually(t, "the new authorities count", func() bool { return later.ask(t) == 200 && laterProxied.ask(t) == 200 })
	eventually(t, "the old ones don't", func() bool { return direct.ask(t) == 401 && proxied.ask(t) == 401 })
	for what, o := range map[string]*one{"client": direct, "proxy": proxied} {
		if o.anew != 1 {
			t.Errorf("%s: %d connections, which shows nothing of open ones", what, o.anew)
		}
	}
}
