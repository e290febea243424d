package bootstrap

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"maps"
	"math/big"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	testingclock "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/apiserver/authn"
	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/objects"
	"quintet.dev/quintet/components/apiserver/objects/objectstest"
)

var trustStart = time.Unix(1700000000, 0)

// authorityUntil is a certificate that expires.
func authorityUntil(t *testing.T, notAfter time.Time) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true,
		NotAfter: notAfter}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func toldOf(t *testing.T, store objects.Store) map[string]string {
	t.Helper()
	told, err := objects.As[*corev1.ConfigMap](
		store.Get(t.Context(), corev1.Resource("configmaps"), metav1.NamespaceSystem, trustName))
	if err != nil {
		t.Fatal(err)
	}
	return told.Data
}

// TestTrustOfAll: extension servers are told of the authorities of all API servers, of those that one had before too,
// until they expire.
func TestTrustOfAll(t *testing.T) {
	short, long := trustStart.Add(time.Hour), trustStart.Add(1000*time.Hour)
	brief, clients, next, proxies := authorityUntil(t, short), authorityUntil(t, long), authorityUntil(t, long),
		authorityUntil(t, long)
	store, clk := &objectstest.Store{}, testingclock.NewFakeClock(trustStart)
	now := brief + clients
	b := New(Config{
		Objects: store, Clock: clk,
		ClientCA:        func() []byte { return []byte(now) },
		RequestHeaderCA: func() []byte { return []byte("# of proxies\n" + proxies) },
		RequestHeader: authn.RequestHeader{UsernameHeaders: []string{"X-Remote-User"},
			AllowedNames: []string{"b", "a"}},
	})
	lists := map[string]string{
		"requestheader-username-headers": `["X-Remote-User"]`, "requestheader-group-headers": "[]",
		"requestheader-extra-headers-prefix": "[]",
		"requestheader-allowed-names":        `["b","a"]`, "requestheader-client-ca-file": proxies,
	}
	check := func(when, clients string) {
		t.Helper()
		for range 2 { // the second finds nothing to do
			if err := b.authentication.ensure(t.Context()); err != nil {
				t.Fatalf("%s: %v", when, err)
			}
		}
		want := maps.Clone(lists)
		want["client-ca-file"] = clients
		if got := toldOf(t, store); !maps.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", when, got, want)
		}
	}
	check("at first", brief+clients)
	now = next
	check("with another", brief+clients+next)
	if store.Writes != 2 {
		t.Errorf("%d writes", store.Writes)
	}
	clk.SetTime(short.Add(trustSlack - time.Second))
	check("just expired", brief+clients+next)
	clk.SetTime(short.Add(trustSlack))
	check("expired for long", clients+next)

	other := New(Config{Objects: store, Clock: clk, RequestHeaderCA: func() []byte { return []byte(proxies) },
		RequestHeader: authn.RequestHeader{
			UsernameHeaders: []string{"X-Remote-User", "X-User"}, UIDHeaders: []string{"X-UID"},
			AllowedNames: []string{"c", "a"}}})
	if err := other.authentication.ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	lists["requestheader-username-headers"], lists["requestheader-uid-headers"],
		lists["requestheader-allowed-names"] = `["X-Remote-User","X-User"]`, `["X-UID"]`, `["b","a","c"]`
	check("beside another server", clients+next)
}

// TestTrustWithoutUIDs: what was told of headers with UIDs is not read, and told no more.
func TestTrustWithoutUIDs(t *testing.T) {
	store, proxies := &objectstest.Store{}, authorityUntil(t, trustStart)
	told := map[string]string{
		"requestheader-client-ca-file": proxies, "requestheader-username-headers": `["X-Remote-User"]`,
		"requestheader-group-headers":        "[]",
		"requestheader-extra-headers-prefix": "[]", "requestheader-allowed-names": "[]",
		"requestheader-uid-headers": "none",
	}
	store.Put(corev1.Resource("configmaps"),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: trustName},
			Data: maps.Clone(told)})
	b := New(Config{Objects: store, Clock: testingclock.NewFakeClock(trustStart), NoUIDHeaders: true})
	if err := b.authentication.ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	delete(told, "requestheader-uid-headers")
	if got := toldOf(t, store); !maps.Equal(got, told) {
		t.Errorf("got %v, want %v", got, told)
	}
}

// TestTrustThatCannotBeRead is left alone.
func TestTrustThatCannotBeRead(t *testing.T) {
	store := &objectstest.Store{}
	b := New(Config{Objects: store, Clock: testingclock.NewFakeClock(trustStart),
		ClientCA: func() []byte { return []byte(authorityUntil(t, trustStart)) }})
	for _, data := range []map[string]string{{"client-ca-file": "none"}, {"requestheader-allowed-names": "none"}} {
		store.Put(corev1.Resource("configmaps"),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: trustName},
				Data: data})
		if err := b.authentication.ensure(t.Context()); err == nil || !maps.Equal(toldOf(t, store), data) {
			t.Errorf("%v: %v, %v", data, err, toldOf(t, store))
		}
	}
}

// TestNothingToTell: a server without authorities publishes nothing, and only removes expired certificates.
func TestNothingToTell(t *testing.T) {
	store := &objectstest.Store{}
	b := New(Config{Objects: store, Clock: testingclock.NewFakeClock(trustStart)})
	if err := b.authentication.ensure(t.Context()); err != nil || store.Writes != 0 {
		t.Errorf("%d writes, %v", store.Writes, err)
	}
	var told api.Object = &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: trustName},
		Data:       map[string]string{"client-ca-file": authorityUntil(t, trustStart.Add(-time.Hour))}}
	store.Put(corev1.Resource("configmaps"), told)
	if err := b.authentication.ensure(t.Context()); err != nil || len(toldOf(t, store)) != 0 {
		t.Errorf("%v, %v", toldOf(t, store), err)
	}
}

// crammed is a store that has no room for more in an object.
type crammed struct{ objects.Store }

func (s crammed) Update(_ context.Context, r schema.GroupResource, _, name string,
	_ func(api.Object) (api.Object, error)) (api.Object, error) {
	return nil, apierrors.NewInvalid(schema.GroupKind{Group: r.Group, Kind: "ConfigMap"}, name,
		field.ErrorList{field.TooLong(field.NewPath(""), "", 1)})
}

// TestTrustThatNoLongerFits: a value that no longer fits is replaced.
func TestTrustThatNoLongerFits(t *testing.T) {
	store, own := &objectstest.Store{}, authorityUntil(t, trustStart)
	b := New(Config{Objects: crammed{store}, Clock: testingclock.NewFakeClock(trustStart),
		ClientCA: func() []byte { return []byte(own) }})
	store.Put(corev1.Resource("configmaps"),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: trustName},
			Data: map[string]string{"client-ca-file": authorityUntil(t, trustStart)}})
	if err := b.authentication.ensure(t.Context()); !apierrors.IsInvalid(err) {
		t.Errorf("got %v", err)
	}
	if err := b.authentication.ensure(t.Context()); err != nil || toldOf(t, store)["client-ca-file"] != own {
		t.Errorf("%v, %v", toldOf(t, store), err)
	}
}
