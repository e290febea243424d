package authn

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"slices"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	x509auth "k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/authentication/user"
	testingclock "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/internal/certs"
)

// TestRemembered: what a certificate proved holds for the same certificate, until it ends or the authorities change.
func TestRemembered(t *testing.T) {
	ours, err := certs.NewAuthority("ours")
	if err != nil {
		t.Fatal(err)
	}
	others, err := certs.NewAuthority("others")
	if err != nil {
		t.Fatal(err)
	}
	pools := map[bool]*x509.CertPool{true: pool(t, ours.Cert), false: pool(t, others.Cert)}
	trusted := true
	verified := 0
	clk := testingclock.NewFakePassiveClock(time.Now())
	m := newRemembered(func() (x509.VerifyOptions, bool) {
		return x509.VerifyOptions{Roots: pools[trusted], KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}},
			true
	}, x509auth.CommonNameUserConversion, clk)
	inner := m.x509
	m.x509 = authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
		verified++
		return inner.AuthenticateRequest(r)
	})
	var left []time.Duration
	m.shown = func(remaining time.Duration) { left = append(left, remaining) }
	shown := certificate(t, ours, "alice", "dev")
	ask := func(want string) {
		t.Helper()
		got, ok, err := m.AuthenticateRequest(&http.Request{TLS: shown})
		if want == "" {
			if ok || err == nil {
				t.Errorf("let in: %v", got)
			}
			return
		}
		if err != nil || !ok || got.User.GetName() != want ||
			!slices.Contains(got.User.GetGroups(), user.AllAuthenticated) {
			t.Errorf("got %v, %v, %v", got, ok, err)
		}
	}
	ask("alice")
	ask("alice")
	if verified != 1 {
		t.Errorf("verified %d times, want once", verified)
	}
	if good := shown.PeerCertificates[0].NotAfter.Sub(clk.Now()); !slices.Equal(left, []time.Duration{good, good}) {
		t.Errorf("the certificate is good for %v, told %v", good, left)
	}
	shown = &tls.ConnectionState{
		PeerCertificates: append(slices.Clone(shown.PeerCertificates), certificate(t, others, "x").PeerCertificates...)}
	ask("alice")
	ask("alice")
	if verified != 2 {
		t.Errorf("verified %d times, want once for each list of certificates", verified)
	}
	shown = certificate(t, ours, "bob")
	ask("bob")
	trusted = false
	ask("")
	trusted = true
	ask("bob")
	before := verified
	for _, invalid := range []time.Time{shown.PeerCertificates[0].NotAfter.Add(time.Second),
		shown.PeerCertificates[0].NotBefore.Add(-time.Second)} {
		clk.SetTime(invalid)
		ask("")
	}
	if verified != before+2 {
		t.Error("a certificate that is not valid at the server's time is not verified again")
	}
	clk.SetTime(time.Now())
	ask("bob")
}

func pool(t *testing.T, pem []byte) *x509.CertPool {
	t.Helper()
	p := x509.NewCertPool()
	if !p.AppendCertsFromPEM(pem) {
		t.Fatal("no certificate")
	}
	return p
}
