package satoken

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/controllers/runner"
	"quintet.dev/quintet/components/controllers/runner/runnertest"
)

func pemOf(t *testing.T, key any, err error) []byte {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

func ec(t *testing.T, curve elliptic.Curve) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	return pemOf(t, key, err)
}

// TestAlgorithms are those by the key's kind; the token names its key and its account.
func TestAlgorithms(t *testing.T) {
	rsaKey, rsaErr := rsa.GenerateKey(rand.Reader, 2048)
	for want, key := range map[jose.SignatureAlgorithm][]byte{jose.RS256: pemOf(t, rsaKey, rsaErr), jose.ES256: ec(t,
		elliptic.P256()),
		jose.ES384: ec(t, elliptic.P384()), jose.ES512: ec(t, elliptic.P521())} {
		signer, err := NewSigner(key)
		if err != nil {
			t.Fatalf("%s: %v", want, err)
		}
		token, err := signer.token(account("a", "u"), "s")
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := jwt.ParseSigned(string(token), []jose.SignatureAlgorithm{want})
		if err != nil {
			t.Fatalf("%s: %v", want, err)
		}
		var got map[string]any
		if err := parsed.UnsafeClaimsWithoutVerification(&got); err != nil {
			t.Fatal(err)
		}
		claims := map[string]any{"iss": "kubernetes/serviceaccount", "sub": "system:serviceaccount:ns:a",
			"kubernetes.io/serviceaccount/namespace": "ns", "kubernetes.io/serviceaccount/secret.name": "s",
			"kubernetes.io/serviceaccount/service-account.name": "a", "kubernetes.io/serviceaccount/service-account.uid": "u"}
		if !maps.Equal(got, claims) || parsed.Headers[0].KeyID == "" {
			t.Errorf("%s: claims %v, headers %+v", want, got, parsed.Headers)
		}
	}
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	for name, key := range map[string][]byte{"P-224": ec(t, elliptic.P224()), "Ed25519": pemOf(t, edwards, err)} {
		if _, err := NewSigner(key); err == nil || (!strings.Contains(err.Error(), "use RSA or ECDSA") &&
			!strings.Contains(err.Error(), "private key")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func account(name, uid string) *v1.ServiceAccount {
	return &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(uid)}}
}

func secret(name, of, uid string) *v1.Secret {
	s := &v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "s",
		Annotations: map[string]string{v1.ServiceAccountNameKey: of}}, Type: v1.SecretTypeServiceAccountToken}
	if uid != "" {
		s.Annotations[v1.ServiceAccountUIDKey] = uid
	}
	return s
}

func run(t *testing.T, ca string, objects ...runtime.Object) *fake.Clientset {
	t.Helper()
	signer, err := NewSigner(ec(t, elliptic.P256()))
	if err != nil {
		t.Fatal(err)
	}
	client := runnertest.NewClient(objects...)
	runnertest.Start(t, client, clock.RealClock{},
		func(env runner.Env) (runner.Controller, error) { return New(env, signer, []byte(ca)) })
	return client
}

// filled waits for a Secret with these keys.
func filled(t *testing.T, client *fake.Clientset, name, uid, keys string) *v1.Secret {
	t.Helper()
	var s *v1.Secret
	runnertest.Eventually(t, func() (bool, string) {
		var err error
		s, err = client.CoreV1().Secrets("ns").Get(t.Context(), name, metav1.GetOptions{})
		return err == nil && s.Annotations[v1.ServiceAccountUIDKey] == uid &&
			strings.Join(slices.Sorted(maps.Keys(s.Data)), " ") == keys, fmt.Sprint(s, err)
	})
	return s
}

func gone(t *testing.T, client *fake.Clientset, name string) {
	t.Helper()
	runnertest.Eventually(t, func() (bool, string) {
		_, err := client.CoreV1().Secrets("ns").Get(t.Context(), name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), fmt.Sprint(err)
	})
}

// TestFillsAndDrops follows an account through its life: its Secrets are filled, and go with it, or with one before it.
func TestFillsAndDrops(t *testing.T) {
	opaque := secret("opaque", "absent", "")
	opaque.Type = v1.SecretTypeOpaque
	holding := secret("holding", "a", "u")
	holding.Data = map[string][]byte{"token": []byte("mine"), "namespace": []byte("elsewhere"), "more": []byte("x")}
	client := run(t, "ca", account("a", "u"), secret("tok", "a", ""), secret("stale", "a", "old"), secret("lost", "absent",
		""), opaque,
		holding)
	s := filled(t, client, "tok", "u", "ca.crt namespace token")
	if string(s.Data["ca.crt"]) != "ca" || string(s.Data["namespace"]) != "ns" {
		t.Errorf("%q", s.Data)
	}
	s = filled(t, client, "holding", "u", "ca.crt more namespace token")
	if string(s.Data["token"]) != "mine" || string(s.Data["namespace"]) != "ns" {
		t.Errorf("a token that was there: %q", s.Data)
	}
	gone(t, client, "stale")
	gone(t, client, "lost")
	if err := client.CoreV1().ServiceAccounts("ns").Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	gone(t, client, "tok")
	gone(t, client, "holding")
	if _, err := client.CoreV1().Secrets("ns").Get(t.Context(), "opaque", metav1.GetOptions{}); err != nil {
		t.Errorf("a Secret of another type: %v", err)
	}
}

// TestWithoutAuthority leaves the key out.
func TestWithoutAuthority(t *testing.T) {
	client := run(t, "", account("a", "u"), secret("tok", "a", ""))
	filled(t, client, "tok", "u", "namespace token")
}

// TestTokenTakenOut is put back.
func TestTokenTakenOut(t *testing.T) {
	client := run(t, "ca", account("a", "u"), secret("tok", "a", ""))
	s := filled(t, client, "tok", "u", "ca.crt namespace token").DeepCopy()
	delete(s.Data, "token")
	if _, err := client.CoreV1().Secrets("ns").Update(t.Context(), s, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	filled(t, client, "tok", "u", "ca.crt namespace token")
}

func TestVerdictsWithoutAuthority(t *testing.T) {
	s := secret("s", "a", "u")
	s.Data = map[string][]byte{"token": []byte("t"), "namespace": []byte("ns")}
	for name, c := range map[string]struct {
		change func(*v1.Secret)
		want   verdict
	}{
		"whole":           {func(*v1.Secret) {}, keep},
		"another's":       {func(s *v1.Secret) { s.Data["ca.crt"] = []byte("x") }, keep},
		"other namespace": {func(s *v1.Secret) { s.Data["namespace"] = []byte("x") }, fill},
		"empty token":     {func(s *v1.Secret) { s.Data["token"] = nil }, fill},
		"empty uid":       {func(s *v1.Secret) { s.Annotations[v1.ServiceAccountUIDKey] = "" }, fill},
	} {
		changed := s.DeepCopy()
		c.change(changed)
		if got := verdictOf(changed, account("a", "u"), nil); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
