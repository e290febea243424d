package authn

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	testingclock "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/apiserver/objects/objectstest"
	"quintet.dev/quintet/internal/certs"
	"quintet.dev/quintet/internal/follow"
)

func authority(t *testing.T) (*certs.Authority, certs.Pair) {
	t.Helper()
	a, err := certs.NewAuthority("test-ca")
	if err != nil {
		t.Fatal(err)
	}
	return a, a.Pair
}

func write(t *testing.T, name string, content []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func certificate(t *testing.T, a *certs.Authority, name string, groups ...string) *tls.ConnectionState {
	t.Helper()
	pair, err := a.Client(name, groups...)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(pair.Cert)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}}
}

type accounts struct{}

func (accounts) AuthenticateToken(_ context.Context, token string) (*authenticator.Response, bool, error) {
	switch token {
	case "account":
		return &authenticator.Response{User: &user.DefaultInfo{Name: "system:serviceaccount:a:b"},
			Audiences: authenticator.Audiences{"api"}}, true, nil
	case "expired":
		return nil, false, errors.New("expired")
	}
	return nil, false, nil
}

func TestChain(t *testing.T) {
	ca, pair := authority(t)
	front, frontPair := authority(t)
	stranger, _ := authority(t)
	store := &objectstest.Store{}
	store.Put(corev1.Resource("secrets"), bootstrapSecret(nil))
	c, err := New(Config{
		ClientCAFile: write(t, "ca.crt", pair.Cert),
		RequestHeader: RequestHeader{
			ClientCAFile: write(t, "front.crt", frontPair.Cert), AllowedNames: []string{"front"},
			UsernameHeaders: []string{"X-Remote-User"}, UIDHeaders: []string{"X-Remote-Uid"},
			GroupHeaders: []string{"X-Remote-Group"}, ExtraHeaderPrefixes: []string{"X-Remote-Extra-"},
		},
		TokenFile:       write(t, "tokens.csv", []byte("secret,joe,7,\"devs,ops\"\n")),
		ServiceAccounts: accounts{},
		BootstrapTokens: true,
		Objects:         store,
		Anonymous:       true,
		Audiences:       []string{"api"},
	})
	if err != nil {
		t.Fatal(err)
	}
	remote := map[string]string{"X-Remote-User": "remote", "X-Remote-Group": "g", "X-Remote-Extra-Acme%2fKey": "v"}
	for _, tt := range []struct {
		name    string
		tls     *tls.ConnectionState
		headers map[string]string
		want    string // "" means refused
		groups  []string
	}{
		{"nothing", nil, nil, "system:anonymous", []string{"system:unauthenticated"}},
		{"certificate", certificate(t, ca, "jane", "devs"), nil, "jane", []string{"devs", "system:authenticated"}},
		{"certificate of a stranger", certificate(t, stranger, "jane"), nil, "", nil},
		{"token", nil, map[string]string{"Authorization": "Bearer secret"}, "joe",
			[]string{"devs", "ops", "system:authenticated"}},
		{"service account", nil, map[string]string{"Authorization": "Bearer account"}, "system:serviceaccount:a:b",
			[]string{"system:authenticated"}},
		{"expired", nil, map[string]string{"Authorization": "Bearer expired"}, "", nil},
		{"unknown token", nil, map[string]string{"Authorization": "Bearer who"}, "", nil},
		{"bootstrap", nil, map[string]string{"Authorization": "Bearer abcdef.0123456789abcdef"},
			"system:bootstrap:abcdef",
			[]string{"system:bootstrappers", "system:bootstrappers:a", "system:bootstrappers:kubeadm",
				"system:authenticated"}},
		{"front proxy", certificate(t, front, "front"), remote, "remote", []string{"g", "system:authenticated"}},
		{"front proxy of another name", certificate(t, front, "back"), remote, "", nil},
		{"headers without proxy", nil, remote, "system:anonymous", []string{"system:unauthenticated"}},
		{"headers with a client certificate", certificate(t, ca, "jane"), remote, "jane",
			[]string{"system:authenticated"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequest("GET", "/api", nil)
			r.TLS = tt.tls
			for k, v := range tt.headers {
				r.Header.Set(k, v)
			}
			response, ok, err := c.AuthenticateRequest(r)
			if ok != (tt.want != "") {
				t.Fatalf("%v %v %v", response, ok, err)
			}
			if !ok {
				return
			}
			if response.User.GetName() != tt.want || !slices.Equal(response.User.GetGroups(), tt.groups) {
				t.Errorf("user %q, groups %q", response.User.GetName(), response.User.GetGroups())
			}
			if tt.want == "remote" && response.User.GetExtra()["acme/key"][0] != "v" {
				t.Errorf("extra %v", response.User.GetExtra())
			}
			for name := range remote {
				if len(r.Header.Values(name)) > 0 {
					t.Errorf("%s stayed", name)
				}
			}
		})
	}
	response, ok, err := c.AuthenticateToken(context.Background(), "secret", nil)
	if err != nil || !ok || response.User.GetName() != "joe" || !slices.Equal(response.Audiences, []string{"api"}) {
		t.Errorf("token review: %v %v %v", response, ok, err)
	}
	if _, ok, _ := c.AuthenticateToken(context.Background(), "secret", []string{"vault"}); ok {
		t.Error("a token of the file is good for any audience")
	}
	if _, ok, err := c.AuthenticateToken(context.Background(), "who", nil); ok || err == nil {
		t.Error("an unknown token passed for anonymous")
	}
}

func TestWithoutAnonymous(t *testing.T) {
	c, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok, _ := c.AuthenticateRequest(httptest.NewRequest("GET", "/", nil)); ok {
		t.Error("let in")
	}
}

// TestBadFiles: each error names flag, file and cause.
func TestBadFiles(t *testing.T) {
	_, pair := authority(t)
	ca := write(t, "ca.crt", pair.Cert)
	garbage := write(t, "garbage", []byte("garbage"))
	for name, tt := range map[string]struct {
		cfg  Config
		want []string
	}{
		"missing CA": {Config{ClientCAFile: "/none"}, []string{"--client-ca-file", "/none: no such file"}},
		"CA is no PEM": {Config{ClientCAFile: garbage},
			[]string{"--client-ca-file", garbage, "does not contain any valid RSA or ECDSA certificates"}},
		"missing front": {Config{RequestHeader: RequestHeader{ClientCAFile: "/none"}},
			[]string{"--requestheader-client-ca-file", "/none: no such file"}},
		"empty header": {Config{RequestHeader: RequestHeader{ClientCAFile: ca, GroupHeaders: []string{" "}}},
			[]string{`--requestheader-group-headers: empty value in [" "]`}},
		"no usual UID header": {Config{RequestHeader: RequestHeader{UIDHeaders: []string{"X-Id"}}},
			[]string{"--requestheader-uid-headers", "X-Remote-Uid"}},
		"one CA for both": {Config{ClientCAFile: ca, RequestHeader: RequestHeader{ClientCAFile: ca}}, []string{
			"--requestheader-client-ca-file and --client-ca-file contain overlapping certificates; " +
				"--requestheader-allowed-names must be specified to ensure " +
				"regular client certificates cannot set authenticating proxy headers for arbitrary users"}},
		"missing tokens": {Config{TokenFile: "/none"}, []string{"--token-auth-file", "/none: no such file"}},
		"short tokens": {Config{TokenFile: write(t, "y", []byte("one,two\n"))},
			[]string{"--token-auth-file", "must have at least 3 columns (token, user name, user uid), found 2"}},
		"broken tokens": {Config{TokenFile: write(t, "y", []byte("\"a\n"))},
			[]string{"--token-auth-file", "parse error on line 1"}},
		"missing webhook": {Config{Webhook: TokenWebhook{ConfigFile: "/none"}},
			[]string{"--authentication-token-webhook-config-file /none", "no such file"}},
		"broken webhook": {Config{Webhook: TokenWebhook{ConfigFile: garbage}},
			[]string{"--authentication-token-webhook-config-file " + garbage, "json parse error"}},
		"webhook version": {Config{
			Webhook: TokenWebhook{Version: "v2",
				ConfigFile: write(t, "kubeconfig", []byte(webhookConfig("https://127.0.0.1:1")))}},
			[]string{"--authentication-token-webhook-config-file", `unsupported authentication webhook version "v2"`}},
	} {
		_, err := New(tt.cfg)
		for _, want := range tt.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %q in it", name, err, want)
			}
		}
	}
	if _, err := New(Config{ClientCAFile: ca,
		RequestHeader: RequestHeader{ClientCAFile: ca, AllowedNames: []string{"front"}}}); err != nil {
		t.Errorf("one CA for both, and a name: %v", err)
	}
}

func TestCAReload(t *testing.T) {
	first, pair := authority(t)
	second, pair2 := authority(t)
	file := write(t, "ca.crt", pair.Cert)
	clk := testingclock.NewFakeClock(time.Now())
	c, err := New(Config{ClientCAFile: file, Clock: clk})
	if err != nil {
		t.Fatal(err)
	}
	try := func(a *certs.Authority) bool {
		r := httptest.NewRequest("GET", "/", nil)
		r.TLS = certificate(t, a, "jane")
		_, ok, _ := c.AuthenticateRequest(r)
		return ok
	}
	if !try(first) || try(second) {
		t.Fatal("before the change")
	}
	run(t, c)
	if err := os.WriteFile(file, pair2.Cert, 0o600); err != nil {
		t.Fatal(err)
	}
	for !try(second) {
		clk.Step(follow.Every)
		runtime.Gosched()
	}
	if try(first) || !bytes.Equal(c.ClientCA(), pair2.Cert) {
		t.Error("the old certificates are still trusted")
	}
}

// TestReviewIsDetached: what authenticators warn of and note in audit events isn't for who asks by a TokenReview, but
// the end of the request reaches them.
func TestReviewIsDetached(t *testing.T) {
	type key struct{}
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), key{}, "of the request"))
	asked := false
	c, err := New(Config{Audiences: []string{"api"},
		ServiceAccounts: authenticator.TokenFunc(
			func(ctx context.Context, _ string) (*authenticator.Response, bool, error) {
				asked = true
				audiences, _ := authenticator.AudiencesFrom(ctx)
				if value := ctx.Value(key{}); value != nil || len(audiences) != 1 || audiences[0] != "mine" {
					t.Errorf("the context has %v, and the audiences %q", value, audiences)
				}
				cancel()
				if ctx.Err() == nil {
					t.Error("the end of the request isn't heard of")
				}
				return nil, false, nil
			})})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.AuthenticateToken(ctx, "token", []string{"mine"}); err == nil || !asked {
		t.Error("the token was not looked at", err)
	}
}

// run runs a chain until the test ends.
func run(t *testing.T, c *Chain) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		c.Close()
	})
}

func bootstrapSecret(change func(*corev1.Secret)) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bootstrap-token-abcdef"},
		Type: corev1.SecretTypeBootstrapToken,
		Data: map[string][]byte{"token-id": []byte("abcdef"), "token-secret": []byte("0123456789abcdef"),
			"usage-bootstrap-authentication": []byte("true"),
			"expiration":                     []byte("2100-01-01T00:00:00Z"),
			"auth-extra-groups": []byte(
				"system:bootstrappers:kubeadm,system:bootstrappers:a,system:bootstrappers:kubeadm")}}
	if change != nil {
		change(s)
	}
	return s
}

func TestBootstrapTokenRefusals(t *testing.T) {
	set := func(key, value string) func(*corev1.Secret) {
		return func(s *corev1.Secret) { s.Data[key] = []byte(value) }
	}
	now := metav1.Now()
	for name, change := range map[string]func(*corev1.Secret){
		"other secret":   set("token-secret", "fedcba9876543210"),
		"other id":       set("token-id", "fedcba"),
		"expired":        set("expiration", "2001-01-01T00:00:00Z"),
		"bad expiration": set("expiration", "tomorrow"),
		"not for this":   set("usage-bootstrap-authentication", "no"),
		"foreign group":  set("auth-extra-groups", "system:masters"),
		"wrong type":     func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque },
		"going away":     func(s *corev1.Secret) { s.DeletionTimestamp = &now },
	} {
		store := &objectstest.Store{}
		store.Put(corev1.Resource("secrets"), bootstrapSecret(change))
		b := &bootstrapTokens{objects: store, clock: testingclock.NewFakeClock(time.Now())}
		if response, ok, err := b.AuthenticateToken(context.Background(), "abcdef.0123456789abcdef"); ok || err != nil {
			t.Errorf("%s: %v %v %v", name, response, ok, err)
		}
	}
}

func TestTokenForm(t *testing.T) {
	for token, want := range map[string]bool{
		"abcdef.0123456789abcdef": true, "abcdef.0123456789abcde": false, "abcde.0123456789abcdef": false,
		"ABCDEF.0123456789abcdef": false, "abcdef0123456789abcdef": false, "abcde-.0123456789abcdef": false, "": false,
	} {
		if _, _, ok := splitToken(token); ok != want {
			t.Errorf("%q: %v", token, ok)
		}
	}
	for group, want := range map[string]bool{
		"system:bootstrappers:a": true, "system:bootstrappers:a:b-c9": true, "system:bootstrappers:": false,
		"system:bootstrappers:a-": false,
		"system:bootstrappers":    false, "system:nodes": false, "system:bootstrappers:A": false,
	} {
		if extraGroup(group) != want {
			t.Errorf("%q: %v", group, !want)
		}
	}
}

func FuzzBootstrapToken(f *testing.F) {
	for _, seed := range []string{"abcdef.0123456789abcdef", "abcdef.", ".", "ABCDEF.0123456789abcdef", ""} {
		f.Add(seed)
	}
	store := &objectstest.Store{}
	store.Put(corev1.Resource("secrets"), bootstrapSecret(nil))
	b := &bootstrapTokens{objects: store, clock: testingclock.NewFakeClock(time.Now())}
	f.Fuzz(func(t *testing.T, token string) {
		response, ok, err := b.AuthenticateToken(context.Background(), token)
		if err != nil || ok != (token == "abcdef.0123456789abcdef") {
			t.Errorf("%v %v %v", response, ok, err)
		}
	})
}

// FuzzTokenFile: whatever is in the file, it is an error or some tokens, and no panic.
func FuzzTokenFile(f *testing.F) {
	f.Add([]byte("secret,joe,7,\"devs,ops\"\n"))
	f.Add([]byte("a,b\n"))
	f.Add([]byte("\"a\n"))
	f.Add([]byte(",,,\n"))
	file := filepath.Join(f.TempDir(), "tokens.csv")
	f.Fuzz(func(t *testing.T, content []byte) {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := New(Config{TokenFile: file})
		if err != nil {
			if !strings.Contains(err.Error(), file) {
				t.Errorf("the error doesn't name the file: %v", err)
			}
			return
		}
		if _, ok, _ := c.AuthenticateToken(context.Background(), "no such token \x00", nil); ok &&
			!bytes.Contains(content, []byte("no such token")) {
			t.Error("an unknown token was taken")
		}
	})
}
