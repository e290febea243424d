package tokens

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/objects/objectstest"
)

const issuer = "https://kubernetes.default.svc"

type fixture struct {
	*Tokens
	store *objectstest.Store
	clock *testingclock.FakeClock
}

func newFixture(t testing.TB, signer crypto.Signer, change func(*Config)) *fixture {
	t.Helper()
	f := &fixture{store: &objectstest.Store{}, clock: testingclock.NewFakeClock(time.Now().Truncate(time.Second))}
	f.store.Put(corev1.Resource("serviceaccounts"), &corev1.ServiceAccount{ObjectMeta: meta("ns", "builder", "sa-uid")})
	f.store.Put(corev1.Resource("pods"), &corev1.Pod{
		ObjectMeta: meta("ns", "pod", "pod-uid"), Spec: corev1.PodSpec{ServiceAccountName: "builder", NodeName: "n1"}})
	f.store.Put(corev1.Resource("nodes"), &corev1.Node{ObjectMeta: meta("", "n1", "node-uid")})
	f.store.Put(corev1.Resource("secrets"), &corev1.Secret{ObjectMeta: meta("ns", "s", "secret-uid")})
	cfg := Config{Issuers: []string{issuer}, Signer: signer, ExtendExpiration: true, Objects: f.store, Clock: f.clock,
		JWKSURI: issuer + KeysPath}
	if change != nil {
		change(&cfg)
	}
	var err error
	if f.Tokens, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	return f
}

func meta(namespace, name, uid string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(uid)}
}

func ecKey(t testing.TB) crypto.Signer {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func bound(kind, name string, seconds int64, audiences ...string) *authenticationv1.TokenRequest {
	r := &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{Audiences: audiences, ExpirationSeconds: ptr.To(seconds)}}
	if kind != "" {
		r.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: kind, Name: name}
	}
	return r
}

func (f *fixture) token(t testing.TB, r *authenticationv1.TokenRequest) string {
	t.Helper()
	out, err := f.Request(context.Background(), "ns", "builder", r, admitted)
	if err != nil {
		t.Fatal(err)
	}
	return out.Status.Token
}

func TestRoundTrip(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for name, key := range map[string]crypto.Signer{"RS256": rsaKey, "ES256": ecKey(t)} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, key, nil)
			for range 2 { // the second comes from memory
				response, ok, err := f.AuthenticateToken(context.Background(), f.token(t, bound("Pod", "pod", 3600)))
				if err != nil || !ok {
					t.Fatal(ok, err)
				}
				u := response.User
				if u.GetName() != "system:serviceaccount:ns:builder" || u.GetUID() != "sa-uid" ||
					strings.Join(u.GetGroups(), " ") != "system:serviceaccounts system:serviceaccounts:ns" {
					t.Errorf("user %v", u)
				}
				for key, want := range map[string]string{
					"authentication.kubernetes.io/pod-name": "pod", "authentication.kubernetes.io/pod-uid": "pod-uid",
					"authentication.kubernetes.io/node-name": "n1", "authentication.kubernetes.io/node-uid": "node-uid",
				} {
					if got := u.GetExtra()[key]; len(got) != 1 || got[0] != want {
						t.Errorf("extra %s = %v, want %s", key, got, want)
					}
				}
				if id := u.GetExtra()["authentication.kubernetes.io/credential-id"]; len(id) != 1 ||
					!strings.HasPrefix(id[0], "JTI=") {
					t.Errorf("credential id %v", id)
				}
			}
		})
	}
}

func TestTokensEnd(t *testing.T) {
	long := metav1.NewTime(time.Now().Add(-time.Hour))
	for _, tt := range []struct {
		name    string
		request *authenticationv1.TokenRequest
		change  func(f *fixture)
		want    string // part of the error
	}{
		{"expired", bound("", "", 600), func(f *fixture) { f.clock.Step(661 * time.Second) }, "expired"},
		{"not yet valid", bound("", "", 600), func(f *fixture) { f.clock.Step(-61 * time.Second) }, "not valid yet"},
		{"account deleted", bound("", "", 600),
			func(f *fixture) { f.store.Remove(corev1.Resource("serviceaccounts"), "ns", "builder") },
			`serviceaccounts "builder" not found`},
		{"account long on its way out", bound("", "", 600), func(f *fixture) {
			m := meta("ns", "builder", "sa-uid")
			m.DeletionTimestamp = &long
			f.store.Put(corev1.Resource("serviceaccounts"), &corev1.ServiceAccount{ObjectMeta: m})
		}, "service account ns/builder has been deleted"},
		{"account made anew", bound("", "", 600), func(f *fixture) {
			f.store.Put(corev1.Resource("serviceaccounts"),
				&corev1.ServiceAccount{ObjectMeta: meta("ns", "builder", "other")})
		}, "does not match claim"},
		{"pod deleted", bound("Pod", "pod", 600),
			func(f *fixture) { f.store.Remove(corev1.Resource("pods"), "ns", "pod") }, "invalidated"},
		{"pod long on its way out", bound("Pod", "pod", 600), func(f *fixture) {
			m := meta("ns", "pod", "pod-uid")
			m.DeletionTimestamp = &long
			f.store.Put(corev1.Resource("pods"), &corev1.Pod{ObjectMeta: m})
		}, "invalidated"},
		{"secret deleted", bound("Secret", "s", 600),
			func(f *fixture) { f.store.Remove(corev1.Resource("secrets"), "ns", "s") }, "invalidated"},
		{"node deleted", bound("Node", "n1", 600),
			func(f *fixture) { f.store.Remove(corev1.Resource("nodes"), "", "n1") }, "invalidated"},
		{"other audience", bound("", "", 600, "vault"), func(*fixture) {}, "target audiences"},
		{"other audience, and expired", bound("", "", 600, "vault"), func(f *fixture) { f.clock.Step(time.Hour) },
			"target audiences"},
		{"other key", bound("", "", 600), func(f *fixture) { _ = f.SetKeys(ecKey(t), nil) },
			"invalid signature, no keys found"},
		{"expired, by a clock that goes ahead", bound("", "", 600),
			func(f *fixture) { f.clock.Step(659 * time.Second) }, ""},
		{"not yet valid, by a clock that is behind", bound("", "", 600),
			func(f *fixture) { f.clock.Step(-59 * time.Second) }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t, ecKey(t), nil)
			token := f.token(t, tt.request)
			if !strings.HasPrefix(tt.name, "other audience") {
				if _, ok, err := f.AuthenticateToken(context.Background(), token); !ok {
					t.Fatal("not even valid before: ", err)
				}
			}
			tt.change(f)
			_, ok, err := f.AuthenticateToken(context.Background(), token)
			if tt.want == "" {
				if !ok || err != nil {
					t.Errorf("got %v, %v", ok, err)
				}
				return
			}
			if ok || err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, %v; want an error with %q", ok, err, tt.want)
			}
		})
	}
}

func TestNodeOfPodMayGo(t *testing.T) {
	f := newFixture(t, ecKey(t), nil)
	token := f.token(t, bound("Pod", "pod", 600))
	f.store.Remove(corev1.Resource("nodes"), "", "n1")
	if _, ok, err := f.AuthenticateToken(context.Background(), token); !ok {
		t.Error(err)
	}
}

// behind is a store of which memory doesn't know the nodes yet.
type behind struct{ *objectstest.Store }

func (b behind) Get(ctx context.Context, resource schema.GroupResource, namespace, name string) (api.Object, error) {
	if resource == corev1.Resource("nodes") {
		return nil, apierrors.NewNotFound(resource, name)
	}
	return b.Store.Get(ctx, resource, namespace, name)
}

// TestNodeOfPodIsNew: the token tells the UID of a node that only the store knows.
func TestNodeOfPodIsNew(t *testing.T) {
	f := newFixture(t, ecKey(t), nil)
	f.cfg.Objects = behind{f.store}
	response, ok, err := f.AuthenticateToken(context.Background(), f.token(t, bound("Pod", "pod", 600)))
	if !ok {
		t.Fatal(err)
	}
	if uid := response.User.GetExtra()["authentication.kubernetes.io/node-uid"]; len(uid) != 1 || uid[0] != "node-uid" {
		t.Errorf("the UID of the node is %q", uid)
	}
}

func TestAudiences(t *testing.T) {
	f := newFixture(t, ecKey(t), nil)
	ctx := authenticator.WithAudiences(context.Background(), authenticator.Audiences{"vault", "x"})
	response, ok, err := f.AuthenticateToken(ctx, f.token(t, bound("", "", 600, "vault", "y")))
	if err != nil || !ok || len(response.Audiences) != 1 || response.Audiences[0] != "vault" {
		t.Errorf("got %v %v %v", response, ok, err)
	}
}

func TestExpiration(t *testing.T) {
	f := newFixture(t, ecKey(t), func(c *Config) { c.MaxExpiration = 2 * time.Hour })
	for _, tt := range []struct {
		name        string
		request     *authenticationv1.TokenRequest
		life, shown time.Duration
	}{
		{"as asked", bound("", "", 1200), 20 * time.Minute, 20 * time.Minute},
		{"by default an hour", &authenticationv1.TokenRequest{}, time.Hour, time.Hour},
		{"shortened", bound("", "", 86400), 2 * time.Hour, 2 * time.Hour},
		{"extended", bound("Pod", "pod", 3607), extendedLife, 3607 * time.Second},
		{"not extended without pod", bound("", "", 3607), 3607 * time.Second, 3607 * time.Second},
		{"not extended for others", bound("Pod", "pod", 3607, "vault"), 3607 * time.Second, 3607 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, err := f.Request(context.Background(), "ns", "builder", tt.request, admitted)
			if err != nil {
				t.Fatal(err)
			}
			parsed, err := jwt.ParseSigned(out.Status.Token, algorithms)
			if err != nil {
				t.Fatal(err)
			}
			var c claims
			if err := parsed.UnsafeClaimsWithoutVerification(&c); err != nil {
				t.Fatal(err)
			}
			if got := c.Expiry.Time().Sub(f.clock.Now()); got != tt.life {
				t.Errorf("lives %v, want %v", got, tt.life)
			}
			if got := out.Status.ExpirationTimestamp.Sub(f.clock.Now()); got != tt.shown {
				t.Errorf("shown %v, want %v", got, tt.shown)
			}
			if payload, _ := base64.RawURLEncoding.DecodeString(
				strings.Split(out.Status.Token, ".")[1]); !strings.Contains(string(payload), `"aud":["`) {
				t.Errorf("claims %s", payload)
			}
			if (c.Kubernetes.WarnAfter != nil) != (tt.life == extendedLife) {
				t.Errorf("warnafter %v", c.Kubernetes.WarnAfter)
			}
		})
	}
}

func TestRequestRefusals(t *testing.T) {
	f := newFixture(t, ecKey(t), nil)
	f.store.Put(corev1.Resource("pods"),
		&corev1.Pod{ObjectMeta: meta("ns", "other", "u"), Spec: corev1.PodSpec{ServiceAccountName: "else"}})
	wrongUID := bound("Pod", "pod", 600)
	wrongUID.Spec.BoundObjectRef.UID = "stale"
	for _, tt := range []struct {
		name    string
		request *authenticationv1.TokenRequest
		is      func(error) bool
	}{
		{"too short", bound("", "", 599), apierrors.IsInvalid},
		{"too long", bound("", "", 1<<32+1), apierrors.IsInvalid},
		{"pod of another account", bound("Pod", "other", 600), apierrors.IsBadRequest},
		{"no such pod", bound("Pod", "none", 600), apierrors.IsNotFound},
		{"wrong uid", wrongUID, apierrors.IsConflict},
		{"no name", bound("Node", "", 600), apierrors.IsBadRequest},
		{"a name that nothing has", bound("Secret", "a/b", 600), apierrors.IsBadRequest},
		{"wrong kind", bound("ConfigMap", "x", 600), apierrors.IsBadRequest},
		{"wrong name", &authenticationv1.TokenRequest{ObjectMeta: meta("ns", "else", "")}, apierrors.IsInvalid},
		{"wrong namespace", &authenticationv1.TokenRequest{ObjectMeta: meta("elsewhere", "", "")}, apierrors.IsInvalid},
		{"uid of another account", &authenticationv1.TokenRequest{ObjectMeta: meta("", "", "stale")},
			apierrors.IsConflict},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := f.Request(context.Background(), "ns", "builder", tt.request, admitted); !tt.is(err) {
				t.Errorf("error %v", err)
			}
		})
	}
	otherVersion := bound("Pod", "pod", 600)
	otherVersion.Spec.BoundObjectRef.APIVersion = "v2"
	if _, err := f.Request(context.Background(), "ns", "builder", otherVersion, admitted); err != nil {
		t.Errorf("another version of the pod: %v", err)
	}
	if _, err := f.Request(context.Background(), "ns", "nobody", bound("", "", 600),
		admitted); !apierrors.IsNotFound(err) {
		t.Errorf("unknown account: %v", err)
	}
}

// TestForgeries: none of these may pass.
func TestForgeries(t *testing.T) {
	key := ecKey(t)
	f := newFixture(t, key, nil)
	good := f.token(t, bound("", "", 600))
	parts := strings.Split(good, ".")
	stranger := newFixture(t, ecKey(t), nil)
	stranger.clock.SetTime(f.clock.Now())
	hmac, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: []byte("0123456789abcdef0123456789abcdef")},
		nil)
	if err != nil {
		t.Fatal(err)
	}
	symmetric, err := jwt.Signed(hmac).Claims(
		newClaims(issuer, []string{issuer}, binding{Namespace: "ns", ServiceAccount: ref{"builder", "sa-uid"}},
			f.clock.Now(), time.Hour)).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	mismatch := newClaims(issuer, []string{issuer}, binding{Namespace: "ns", ServiceAccount: ref{"builder", "sa-uid"}},
		f.clock.Now(), time.Hour)
	mismatch.Subject = "system:serviceaccount:kube-system:admin"
	wrongSubject, err := f.sign(t.Context(), mismatch)
	if err != nil {
		t.Fatal(err)
	}
	endless := newClaims(issuer, []string{issuer}, binding{Namespace: "ns", ServiceAccount: ref{"builder", "sa-uid"}},
		f.clock.Now(), time.Hour)
	endless.Expiry = nil
	noExpiry, err := f.sign(t.Context(), endless)
	if err != nil {
		t.Fatal(err)
	}
	for name, token := range map[string]string{
		"other key":      stranger.token(t, bound("", "", 600)),
		"no signature":   parts[0] + "." + parts[1] + ".",
		"alg none":       "eyJhbGciOiJub25lIn0." + parts[1] + ".",
		"cut":            good[:len(good)-4],
		"symmetric":      symmetric,
		"wrong subject":  wrongSubject,
		"without expiry": noExpiry,
		"empty":          "",
		"dots":           "..",
	} {
		t.Run(name, func(t *testing.T) {
			if response, ok, _ := f.AuthenticateToken(context.Background(), token); ok {
				t.Errorf("accepted as %v", response.User)
			}
		})
	}
}

// TestUsesOfExtendedTokens: they are in time until they should have been exchanged.
func TestUsesOfExtendedTokens(t *testing.T) {
	used := map[Use]int{}
	f := newFixture(t, ecKey(t), func(c *Config) { c.Used = func(u Use) { used[u]++ } })
	token := f.token(t, bound("Pod", "pod", extendableSeconds))
	for _, later := range []time.Duration{0, 2 * time.Hour} {
		f.clock.Step(later)
		if _, ok, err := f.AuthenticateToken(context.Background(), token); !ok {
			t.Fatal(err)
		}
	}
	if used[UseValid] != 1 || used[UseStale] != 1 || len(used) != 2 {
		t.Errorf("uses: %v", used)
	}
}

func TestDiscovery(t *testing.T) {
	f := newFixture(t, ecKey(t), nil)
	d, err := f.Discovery()
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	d.ServeKeys(w, nil)
	var keys jose.JSONWebKeySet
	if err := json.Unmarshal(w.Body.Bytes(), &keys); err != nil {
		t.Fatal(err)
	}
	parsed, err := jwt.ParseSigned(f.token(t, bound("", "", 600)), algorithms)
	if err != nil {
		t.Fatal(err)
	}
	var c claims
	if err := parsed.Claims(keys, &c); err != nil {
		t.Errorf("the published keys don't verify a token: %v", err)
	}
	w = httptest.NewRecorder()
	d.ServeConfiguration(w, nil)
	if !strings.Contains(w.Body.String(), `"jwks_uri":"https://kubernetes.default.svc/openid/v1/jwks"`) {
		t.Error(w.Body.String())
	}
	for urls, want := range map[[2]string]bool{
		{"kubernetes", "https://a"}: false, {"https://a?b", "https://a"}: false, {"https://a#b", "https://a"}: false,
		{"https://a", "http://a"}: false, {"https://a", "https:///keys"}: true, {"https://a", "https://a?b#c"}: true,
	} {
		f := newFixture(t, ecKey(t), func(c *Config) { c.Issuers, c.JWKSURI = []string{urls[0]}, urls[1] })
		if _, err := f.Discovery(); (err == nil) != want {
			t.Errorf("%q: %v", urls, err)
		}
	}
}

func FuzzAuthenticateToken(f *testing.F) {
	fix := newFixture(f, ecKey(f), nil)
	good := fix.token(f, bound("Pod", "pod", 600))
	parts := strings.Split(good, ".")
	f.Add("")
	f.Add(parts[0] + "." + parts[1] + ".")
	f.Add("." + parts[1] + "." + parts[2])
	f.Add(parts[0] + ".eyJpc3MiOiJodHRwczovL2t1YmVybmV0ZXMuZGVmYXVsdC5zdmMifQ." + parts[2])
	f.Add("eyJhbGciOiJub25lIn0." + parts[1] + ".")
	f.Fuzz(func(t *testing.T, token string) {
		// A signature can be written in more than one way; what is signed can't.
		if response, ok, _ := fix.AuthenticateToken(context.Background(), token); ok &&
			!strings.HasPrefix(token, parts[0]+"."+parts[1]+".") {
			t.Errorf("accepted %q as %v", token, response.User)
		}
	})
}

// TestSetKeys: with new keys, tokens of the old ones end, and discovery tells of the new.
func TestSetKeys(t *testing.T) {
	old, next := ecKey(t), ecKey(t)
	f := newFixture(t, old, nil)
	d, err := f.Discovery()
	if err != nil {
		t.Fatal(err)
	}
	keys := func() string {
		w := httptest.NewRecorder()
		d.ServeKeys(w, nil)
		return w.Body.String()
	}
	before := keys()
	token := f.token(t, bound("", "", 600))
	good := func() bool {
		_, ok, _ := f.AuthenticateToken(context.Background(), token)
		return ok
	}
	if err := f.SetKeys(next, []crypto.PublicKey{old.Public()}); err != nil || !good() || keys() == before {
		t.Errorf("the old key still verifies: %v", err)
	}
	if err := f.SetKeys(nil, nil); err == nil || !good() {
		t.Errorf("no keys at all: %v", err)
	}
	if err := f.SetKeys(next, nil); err != nil || good() {
		t.Errorf("the old key is gone: %v", err)
	}
	token = f.token(t, bound("", "", 600))
	if !good() {
		t.Error("the new key doesn't verify what it signed")
	}
}

func admitted(runtime.Object) error { return nil }
