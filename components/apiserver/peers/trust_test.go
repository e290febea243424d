package peers

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	testingclock "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/apiserver/storage/memory"
	"quintet.dev/quintet/internal/certs"
	"quintet.dev/quintet/internal/follow"
)

// TestAuthoritiesAreFollowed: a server with a certificate of new authorities is believed once these are in the file.
func TestAuthoritiesAreFollowed(t *testing.T) {
	before, err := certs.NewAuthority("before")
	now, err2 := certs.NewAuthority("now")
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	serving, err := now.Serving("apiserver", serverName)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := tls.X509KeyPair(serving.Cert, serving.Key)
	if err != nil {
		t.Fatal(err)
	}
	other := httptest.NewUnstartedServer(http.NotFoundHandler())
	other.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	other.StartTLS()
	defer other.Close()
	ca, clock := filepath.Join(t.TempDir(), "ca.crt"), testingclock.NewFakeClock(time.Unix(0, 0))
	write := func(authorities []byte) {
		if err := os.WriteFile(ca, authorities, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(before.Cert)
	store := memory.New(clock)
	defer store.Close()
	p, err := New(Config{
		ID: "this", Store: store, Prefix: "/registry", Clock: clock, CAFile: ca,
		Certificate: func() *tls.Certificate { return nil },
		Dial:        (&net.Dialer{}).DialContext,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.authorities.Run(ctx, clock) }()
	asked := func() string {
		_, err := p.discover(t.Context(), other.Listener.Addr().String(), "/apis")
		return err.Error()
	}
	if answer := asked(); !strings.Contains(answer, "unknown authority") {
		t.Errorf("with the authorities of before: %s", answer)
	}
	write(now.Cert)
	err = wait.PollUntilContextTimeout(ctx, time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		clock.Step(follow.Every)
		return strings.Contains(asked(), "404"), nil
	})
	if err != nil {
		t.Errorf("with those of now: %s", asked())
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	p.transport.Load().CloseIdleConnections()
}
