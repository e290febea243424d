package connect

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/internal/certs"
	"quintet.dev/quintet/internal/follow"
)

// TestClientPairFollows: a renewed certificate is shown without a restart, also to a kubelet whose connection was kept.
func TestClientPairFollows(t *testing.T) {
	ca, err := certs.NewAuthority("ca")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	write := func() {
		t.Helper()
		pair, err := ca.Client("kube-apiserver")
		if err != nil {
			t.Fatal(err)
		}
		for file, content := range map[string][]byte{cert: pair.Cert, key: pair.Key} {
			if err := os.WriteFile(file, content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	write()
	c, err := New(Config{ClientCertificate: cert, ClientKey: key})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	kubelet := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write(r.TLS.PeerCertificates[0].Raw)
	}))
	kubelet.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	kubelet.StartTLS()
	defer kubelet.Close()
	shown := func() []byte {
		t.Helper()
		for {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, kubelet.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := c.kubelet().RoundTrip(r)
			if err != nil {
				continue // the connection was ended meanwhile
			}
			got, err := io.ReadAll(answer.Body)
			_ = answer.Body.Close()
			if err == nil {
				return got
			}
		}
	}
	first := shown()
	clk := testingclock.NewFakeClock(time.Now())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- c.Run(ctx, clk) }()
	write()
	for bytes.Equal(shown(), first) {
		clk.Step(follow.Every)
		runtime.Gosched()
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := New(Config{ClientCertificate: cert, ClientKey: "/none"}); err == nil ||
		!strings.Contains(err.Error(), "--kubelet-client-key: open /none") {
		t.Errorf("a key that isn't there: %v", err)
	}
}

// TestAuthorityFollows: who signs the kubelets' certificates can be replaced without a restart.
func TestAuthorityFollows(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca")
	write := func(content []byte) {
		t.Helper()
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	before, err := certs.NewAuthority("before")
	if err != nil {
		t.Fatal(err)
	}
	kubelet := httptest.NewTLSServer(http.NotFoundHandler())
	defer kubelet.Close()
	write(before.Cert)
	c, err := New(Config{Authority: file})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ask := func() error {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, kubelet.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := c.kubelet().RoundTrip(r)
		if err == nil {
			err = answer.Body.Close()
		}
		return err
	}
	if wrong := (*tls.CertificateVerificationError)(nil); !errors.As(ask(), &wrong) {
		t.Fatal("a kubelet is trusted whose certificate nobody known has signed")
	}
	clk := testingclock.NewFakeClock(time.Now())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- c.Run(ctx, clk) }()
	write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: kubelet.Certificate().Raw}))
	for ask() != nil {
		clk.Step(follow.Every)
		runtime.Gosched()
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	write([]byte("none"))
	if _, err := New(Config{Authority: file}); err == nil ||
		err.Error() != "--kubelet-certificate-authority "+file+": no certificate found" {
		t.Errorf("a file without a certificate: %v", err)
	}
}

// TestCloseEndsConnections, also one that is in use and was made when others signed the kubelets' certificates.
func TestCloseEndsConnections(t *testing.T) {
	kubelet := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer kubelet.Close()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: kubelet.Certificate().Raw})
	file := filepath.Join(t.TempDir(), "ca")
	if err := os.WriteFile(file, authority, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := New(Config{Authority: file})
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, kubelet.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := c.kubelet().RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if err := c.judgeBy(t.Context(), [][]byte{authority}); err != nil {
		t.Fatal(err)
	}
	c.Close()
	if _, err := io.ReadAll(answer.Body); err == nil { // which would not end otherwise
		t.Error("the answer has an end")
	}
}
