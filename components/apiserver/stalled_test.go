package apiserver_test

import (
	"crypto/tls"
	"io"
	"net/http"
	"testing"
)

// TestStalledBody: a client that doesn't send the body that it announced is answered when the time of its request is
// over, and holds no place among the requests in flight any longer.
func TestStalledBody(t *testing.T) {
	f := start(t)
	for name, protocols := range map[string]func(*http.Protocols){
		"HTTP/1.1": func(p *http.Protocols) { p.SetHTTP1(true) },
		"HTTP/2.0": func(p *http.Protocols) { p.SetHTTP2(true) },
	} {
		transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
			Protocols: &http.Protocols{}}
		protocols(transport.Protocols)
		defer transport.CloseIdleConnections()
		never, write := io.Pipe()
		defer write.Close()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
			"https://"+f.server.Addr().String()+"/api/v1/namespaces/default/configmaps?timeout=1s", never)
		if err != nil {
			t.Fatal(err)
		}
		r.ContentLength = 100
		r.Header.Set("Authorization", "Bearer admin")
		r.Header.Set("Content-Type", "application/json")
		answer, err := transport.RoundTrip(r)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		_ = answer.Body.Close()
		if answer.Proto != name || answer.StatusCode != http.StatusGatewayTimeout {
			t.Errorf("%s: got %s %s", name, answer.Proto, answer.Status)
		}
	}
}
