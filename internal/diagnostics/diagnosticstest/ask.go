// Package diagnosticstest queries the debugging endpoints of components in tests.
package diagnosticstest

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// Listen returns a listener for a component, and a function that requests a path of it. Both are closed with the test.
func Listen(t testing.TB) (net.Listener, func(path string) (code int, body string)) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
		DisableKeepAlives: true, //nolint:gosec // self-signed, on the loopback
	}}
	return listener, func(path string) (int, string) {
		t.Helper()
		response, err := client.Get("https://" + listener.Addr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = response.Body.Close() }()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(body)
	}
}
