package external

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"net"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	externaljwtv1 "k8s.io/externaljwt/apis/v1"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/apiserver/objects/objectstest"
	"quintet.dev/quintet/components/apiserver/tokens"
)

// signer is a process that signs.
type signer struct {
	externaljwtv1.UnimplementedExternalJWTSignerServer
	t *testing.T

	mu      sync.Mutex
	id      string
	key     *ecdsa.PrivateKey
	keys    []*externaljwtv1.Key
	header  map[string]string // instead of the right one
	hint    int64
	life    int64
	fetches int
}

func (s *signer) rotate(id string, hidden bool) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		s.t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		s.t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.id, s.key = id, key
	s.keys = append(s.keys, &externaljwtv1.Key{KeyId: id, Key: der, ExcludeFromOidcDiscovery: hidden})
}

func (s *signer) Sign(_ context.Context, r *externaljwtv1.SignJWTRequest) (*externaljwtv1.SignJWTResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	header := map[string]string{"alg": "ES256", "kid": s.id, "typ": "JWT"}
	if s.header != nil {
		header = s.header
	}
	text, err := json.Marshal(header)
	if err != nil {
		return nil, err
	}
	head := base64.RawURLEncoding.EncodeToString(text)
	sum := sha256.Sum256([]byte(head + "." + r.Claims))
	a, b, err := ecdsa.Sign(rand.Reader, s.key, sum[:])
	if err != nil {
		return nil, err
	}
	signature := append(a.FillBytes(make([]byte, 32)), b.FillBytes(make([]byte, 32))...)
	return &externaljwtv1.SignJWTResponse{Header: head, Signature: base64.RawURLEncoding.EncodeToString(signature)}, nil
}

func (s *signer) FetchKeys(context.Context, *externaljwtv1.FetchKeysRequest) (*externaljwtv1.FetchKeysResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fetches++
	return &externaljwtv1.FetchKeysResponse{Keys: append([]*externaljwtv1.Key(nil), s.keys...),
		DataTimestamp: timestamppb.Now(), RefreshHintSeconds: s.hint}, nil
}

func (s *signer) Metadata(context.Context, *externaljwtv1.MetadataRequest) (*externaljwtv1.MetadataResponse, error) {
	return &externaljwtv1.MetadataResponse{MaxTokenExpirationSeconds: s.life}, nil
}

func serve(t *testing.T) (*signer, string) {
	t.Helper()
	s := &signer{t: t, hint: 300, life: 3600}
	path := filepath.Join(t.TempDir(), "jwt.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	externaljwtv1.RegisterExternalJWTSignerServer(server, s)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return s, path
}

func dial(t *testing.T, path string, c clock.WithTicker) (*Signer, *tokens.Tokens) {
	t.Helper()
	s, err := Dial(t.Context(), path, c, prometheus.NewRegistry().Register)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	store := &objectstest.Store{}
	store.Put(corev1.Resource("serviceaccounts"),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b", UID: "1"}})
	made, err := tokens.New(tokens.Config{Issuers: []string{"https://issuer"}, JWKSURI: "https://issuer/keys",
		Remote: s, Objects: store})
	if err != nil {
		t.Fatal(err)
	}
	s.Follow(made.SetRemoteKeys)
	return s, made
}

func request(t *testing.T, made *tokens.Tokens) (string, error) {
	t.Helper()
	r, err := made.Request(t.Context(), "a", "b", &authenticationv1.TokenRequest{},
		func(runtime.Object) error { return nil })
	if err != nil {
		return "", err
	}
	return r.Status.Token, nil
}

// TestTokens are signed elsewhere and verified here, also by keys that came later; hidden keys verify, but are not
// published.
func TestTokens(t *testing.T) {
	remote, path := serve(t)
	remote.rotate("old", true)
	remote.rotate("first", false)
	_, made := dial(t, path, clock.RealClock{})
	verified := func(token string) bool {
		got, ok, err := made.AuthenticateToken(t.Context(), token)
		return err == nil && ok && got.User.GetName() == "system:serviceaccount:a:b"
	}
	first, err := request(t, made)
	if err != nil || !verified(first) {
		t.Fatalf("the first key: %v", err)
	}
	remote.rotate("second", false)
	second, err := request(t, made)
	if err != nil || !verified(second) || !verified(first) {
		t.Errorf("a key that is not known yet: %v", err)
	}
	documents, err := made.Discovery()
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	documents.ServeKeys(w, nil)
	for id, told := range map[string]bool{"old": false, "first": true, "second": true} {
		if strings.Contains(w.Body.String(), `"kid":"`+id+`"`) != told {
			t.Errorf("key %s: want told %v, got %s", id, told, w.Body)
		}
	}
	if age := w.Header().Get("Cache-Control"); age == "public, max-age=3600" {
		t.Error("the documents are good for longer than the keys")
	}
	last := strings.LastIndexByte(second, '.')
	if verified(second[:last+1] + "AAAA" + second[last+5:]) {
		t.Error("a forged signature is taken")
	}
}

// TestHeaders refuses what says more, or less, than it may.
func TestHeaders(t *testing.T) {
	remote, path := serve(t)
	remote.rotate("hidden", true)
	remote.rotate("key", false)
	_, made := dial(t, path, clock.RealClock{})
	for want, header := range map[string]map[string]string{
		"bad type":                             {"alg": "ES256", "kid": "key", "typ": "JWS"},
		"key id missing":                       {"alg": "ES256", "typ": "JWT"},
		"key id longer than 1 kb":              {"alg": "ES256", "kid": strings.Repeat("x", 1025), "typ": "JWT"},
		`bad signing algorithm "none"`:         {"alg": "none", "kid": "key", "typ": "JWT"},
		`unknown field "jku"`:                  {"alg": "ES256", "kid": "key", "typ": "JWT", "jku": "https://evil"},
		"is excluded from OIDC discovery docs": {"alg": "ES256", "kid": "hidden", "typ": "JWT"},
	} {
		remote.mu.Lock()
		remote.header = header
		remote.mu.Unlock()
		if _, err := request(t, made); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// TestKeysOfAnotherKind don't keep others from being used.
func TestKeysOfAnotherKind(t *testing.T) {
	remote, path := serve(t)
	public, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	remote.keys = append(remote.keys, &externaljwtv1.Key{KeyId: "edwards", Key: der})
	remote.rotate("key", false)
	_, made := dial(t, path, clock.RealClock{})
	token, err := request(t, made)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok, err := made.AuthenticateToken(t.Context(), token); !ok {
		t.Error(err)
	}
	documents, err := made.Discovery()
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	documents.ServeKeys(w, nil)
	if !strings.Contains(w.Body.String(), `"kid":"key"`) || strings.Contains(w.Body.String(), "edwards") {
		t.Errorf("told are %s", w.Body)
	}
}

// TestUnknownKeyIsGivenOut: that the keys can't be fetched just now keeps no token from its pod.
func TestUnknownKeyIsGivenOut(t *testing.T) {
	remote, path := serve(t)
	remote.rotate("key", false)
	_, made := dial(t, path, clock.RealClock{})
	remote.rotate("another", false)
	remote.mu.Lock()
	remote.hint = 0 // an answer that is none
	remote.mu.Unlock()
	if token, err := request(t, made); err != nil || token == "" {
		t.Error(err)
	}
}

// TestRefresh fetches keys as often as the signer says.
func TestRefresh(t *testing.T) {
	remote, path := serve(t)
	remote.rotate("key", false)
	c := clocktesting.NewFakeClock(time.Now())
	s, _ := dial(t, path, c)
	changed := make(chan int, 1)
	s.Follow(func(keys []tokens.RemoteKey) { changed <- len(keys) })
	<-changed
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	remote.rotate("another", false)
	for !c.HasWaiters() {
		if t.Context().Err() != nil {
			t.Fatal("nothing waits")
		}
	}
	c.Step(300 * time.Second)
	if n := <-changed; n != 2 {
		t.Errorf("%d keys", n)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestBadSigners(t *testing.T) {
	for want, spoil := range map[string]func(*signer){
		"found invalid refresh hint (0s)":     func(s *signer) { s.hint = 0 },
		"found no keys":                       func(s *signer) { s.keys = nil },
		`found invalid public key id ""`:      func(s *signer) { s.keys[0].KeyId = "" },
		"found empty public key":              func(s *signer) { s.keys[0].Key = nil },
		"while parsing external public keys:": func(s *signer) { s.keys[0].Key = []byte("x") },
	} {
		remote, path := serve(t)
		remote.rotate("key", false)
		spoil(remote)
		if _, err := Dial(t.Context(), path, clock.RealClock{}, prometheus.NewRegistry().Register); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	remote, path := serve(t)
	remote.rotate("key", false)
	remote.life = 599
	s, _ := dial(t, path, clock.RealClock{})
	if _, err := s.LongestLife(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "(599s) is less than acceptable (min 600s)") {
		t.Errorf("a short life: %v", err)
	}
}
