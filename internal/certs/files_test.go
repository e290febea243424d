package certs

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"
)

// TestOpenConnectionsOutliveTheirCertificate: they go on with the one that they began with, new ones get the new one,
// over both versions of HTTP.
func TestOpenConnectionsOutliveTheirCertificate(t *testing.T) {
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2.0": true} {
		t.Run(name, func(t *testing.T) {
			ca, err := NewAuthority("ca")
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			certFile, keyFile := filepath.Join(dir, "crt"), filepath.Join(dir, "key")
			renew := func(name string) {
				t.Helper()
				pair, err := ca.Serving(name, "localhost")
				if err != nil {
					t.Fatal(err)
				}
				for file, content := range map[string][]byte{certFile: pair.Cert, keyFile: pair.Key} {
					if err := os.WriteFile(file, content, 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
			renew("one")
			clk := testingclock.NewFakePassiveClock(time.Unix(1700000000, 0))
			files, err := Follow("--flags", certFile, keyFile, clk)
			if err != nil {
				t.Fatal(err)
			}
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			server.EnableHTTP2 = http2
			server.TLS = &tls.Config{GetCertificate: files.Get}
			server.StartTLS()
			defer server.Close()
			server.TLS.Certificates = nil // the test server's own
			client := func() func() (string, bool) {
				transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true,
					ServerName: "localhost"}, ForceAttemptHTTP2: http2}
				t.Cleanup(transport.CloseIdleConnections)
				return func() (string, bool) { return get(t, transport, server.URL, name) }
			}
			old := client()
			if got, _ := old(); got != "one" {
				t.Fatalf("at first: %s", got)
			}
			renew("two")
			clk.SetTime(clk.Now().Add(Recheck))
			fresh := client()
			if got, _ := fresh(); got != "two" {
				t.Errorf("a new connection: %s", got)
			}
			if got, reused := old(); got != "one" || !reused {
				t.Errorf("the open one: %s, reused: %v", got, reused)
			}
		})
	}
}

// get tells the name in the certificate that answers, and whether that was an open connection.
func get(t *testing.T, transport *http.Transport, url, proto string) (name string, reused bool) {
	t.Helper()
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { reused = info.Reused }}
	r, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil || answer.Proto != proto {
		t.Fatalf("%s, %v", answer.Proto, err)
	}
	return answer.TLS.PeerCertificates[0].Subject.CommonName, reused
}
