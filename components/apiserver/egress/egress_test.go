package egress

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"

	"quintet.dev/quintet/components/apiserver/egress/egresstest"
	"quintet.dev/quintet/internal/certs"
)

// connector is a proxy that knows CONNECT.
type connector struct{ asked atomic.Int64 }

func (c *connector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.asked.Add(1)
	if r.Method != http.MethodConnect {
		http.Error(w, r.Method, http.StatusMethodNotAllowed)
		return
	}
	egresstest.Tunnel(w, r)
}

func write(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func load(t *testing.T, selections string) (*Dialers, error) {
	t.Helper()
	return Load(write(t, "egress.yaml",
		[]byte("apiVersion: apiserver.k8s.io/v1beta1\nkind: EgressSelectorConfiguration\negressSelections:\n"+selections)))
}

// behindTLS serves a proxy that wants to know who its clients are, and returns how to reach it.
func behindTLS(t *testing.T, h http.Handler) string {
	t.Helper()
	ca, err := certs.NewAuthority("proxy-ca")
	if err != nil {
		t.Fatal(err)
	}
	serving, err := ca.Serving("proxy", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	client, err := ca.Client("kube-apiserver")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(serving.Cert, serving.Key)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(h)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert,
		ClientCAs: x509.NewCertPool()}
	server.TLS.ClientCAs.AppendCertsFromPEM(ca.Cert)
	server.StartTLS()
	t.Cleanup(server.Close)
	return fmt.Sprintf("{url: %q, tlsConfig: {caBundle: %q, clientCert: %q, clientKey: %q}}", server.URL,
		write(t, "ca.crt", ca.Cert), write(t, "client.crt", client.Cert), write(t, "client.key", client.Key))
}

// TestWays: each kind of peer is reached by its own way, the others straight.
func TestWays(t *testing.T) {
	behind := httptest.NewServer(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))
	defer behind.Close()
	proxy := &connector{}
	plain := httptest.NewServer(proxy)
	defer plain.Close()
	socket := filepath.Join(t.TempDir(), "proxy.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	unix := &http.Server{Handler: proxy}
	go func() { _ = unix.Serve(listener) }()
	defer unix.Close()

	for name, connection := range map[string]string{
		"TCP": "{proxyProtocol: HTTPConnect, transport: {tcp: {url: " + plain.URL + "}}}",
		"TLS": "{proxyProtocol: HTTPConnect, transport: {tcp: " + behindTLS(t, proxy) + "}}",
		"UDS": "{proxyProtocol: HTTPConnect, transport: {uds: {udsName: " + socket + "}}}",
	} {
		w, err := load(t, "- {name: etcd, connection: "+connection+
			"}\n- {name: controlplane, connection: {proxyProtocol: Direct}}\n")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if w.Cluster() != nil {
			t.Errorf("%s: there is a way to nodes that nobody asked for", name)
		}
		for peers, way := range map[string]struct {
			dial    Dial
			proxied int64
		}{"etcd": {w.Etcd(), 1}, "control plane": {w.ControlPlane(), 0}} {
			before := proxy.asked.Load()
			client := &http.Client{Transport: &http.Transport{DialContext: way.dial, DisableKeepAlives: true}}
			got, err := client.Get(behind.URL)
			if err != nil {
				t.Errorf("%s: %s: %v", name, peers, err)
				continue
			}
			body, err := io.ReadAll(got.Body)
			_ = got.Body.Close()
			if err != nil || string(body) != "hello" || proxy.asked.Load()-before != way.proxied {
				t.Errorf("%s: %s: got %q, %v, by %d proxies", name, peers, body, err, proxy.asked.Load()-before)
			}
		}
	}
}

// asIs resolves to nothing special.
type asIs struct{}

func (asIs) ClientConfigFor(string) (*rest.Config, error) { return &rest.Config{}, nil }
func (asIs) ClientConfigForService(string, string, int) (*rest.Config, error) {
	return &rest.Config{}, nil
}

// TestWebhooks: those that are Services are in the cluster, those that are URLs are elsewhere.
func TestWebhooks(t *testing.T) {
	w,
		err := load(t,
		"- {name: cluster, connection: {proxyProtocol: HTTPConnect, transport: {tcp: {url: 'http://127.0.0.1:1'}}}}\n")
	if err != nil {
		t.Fatal(err)
	}
	resolver := w.Webhooks()(asIs{})
	service, err := resolver.ClientConfigForService("a", "b", 443)
	if err != nil || service.Dial == nil {
		t.Errorf("Service: %v, %v", service, err)
	}
	url, err := resolver.ClientConfigFor("example.com:443")
	if err != nil || url.Dial != nil {
		t.Errorf("URL: %v, %v", url, err)
	}
	var none *Dialers
	if none.Webhooks() != nil || none.Etcd() != nil || none.Lookup() != nil {
		t.Error("no configuration is one")
	}
}

// TestNothingSelected: a configuration without selections leaves all ways straight.
func TestNothingSelected(t *testing.T) {
	for _, selections := range []string{"", " []\n"} {
		w, err := load(t, selections)
		if err != nil {
			t.Fatal(err)
		}
		if w.ControlPlane() != nil || w.Etcd() != nil || w.Cluster() != nil {
			t.Errorf("a way that nobody chose, of %q", selections)
		}
	}
}

func TestMistakes(t *testing.T) {
	for want, selections := range map[string]string{
		"unknown field":             "- {name: etcd, link: {}}\n",
		`"Carrier pigeon"`:          "- {name: etcd, connection: {proxyProtocol: Carrier pigeon}}\n",
		"must be absent for direct": "- {name: etcd, connection: {proxyProtocol: Direct, transport: {uds: {udsName: /x}}}}\n",
		"transport must be set":     "- {name: etcd, connection: {proxyProtocol: HTTPConnect}}\n",
		`"nowhere"`:                 "- {name: nowhere, connection: {proxyProtocol: Direct}}\n",
	} {
		if _, err := load(t, selections); err == nil ||
			!strings.Contains(strings.ToLower(err.Error()), strings.ToLower(want)) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	if _, err := Load("/nowhere/egress.yaml"); err == nil {
		t.Error("a file that doesn't exist is one")
	}
}

// TestPeerThatSpeaksFirst: what it says may come with the proxy's answer.
func TestPeerThatSpeaksFirst(t *testing.T) {
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprint(conn, "HTTP/1.1 200 Connection established\r\n\r\nhello, ")
		fmt.Fprint(conn, "world")
	}))
	defer proxy.Close()
	ways,
		err := load(t,
		"- name: controlplane\n  connection:\n    proxyProtocol: HTTPConnect\n    transport:\n      tcp:\n        url: "+
			proxy.URL+"\n")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := ways.ControlPlane()(t.Context(), "tcp", "peer:1")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if said, err := io.ReadAll(conn); err != nil || string(said) != "hello, world" {
		t.Errorf("%q, %v", said, err)
	}
}
