package peers

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	testingclock "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/apiserver/storage/memory"
)

// TestAddressAsUpstream: servers of both kinds on one store must find each other.
func TestAddressAsUpstream(t *testing.T) {
	clock := testingclock.NewFakeClock(time.Unix(0, 0))
	store := memory.New(clock)
	defer store.Close()
	p, err := New(Config{
		ID: "apiserver-xy", Address: "127.0.0.1:34201", Store: store, Prefix: "/registry", Clock: clock,
		Changed: func(map[string][]apidiscoveryv2.APIGroupDiscovery) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.tellAddress(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := store.Get(t.Context(), "/registry/peerserverleases/apiserver-xy")
	const want = "k8s\x00\n\x0f\n\x02v1\x12\tEndpoints\x12X\n3\n\x00\x12\x00\x1a\x00\"\x00*\x002\x008\x01B\x00Z!\n\x11apiserverIdentity\x12\x0capiserver-xy" +
		"\x12!\n\r\n\t127.0.0.1\x1a\x00\x1a\x10\n\x05https\x10\x99\x8b\x02\x1a\x03TCP\x1a\x00\"\x00"
	if err != nil || string(got.Value) != want {
		t.Errorf("%v\n%q\n%q", err, got.Value, want)
	}
	if at, err := p.addressOf(t.Context(), "apiserver-xy"); err != nil || at != "127.0.0.1:34201" {
		t.Errorf("%q, %v", at, err)
	}
	if at, err := p.addressOf(t.Context(), "apiserver-y"); err == nil {
		t.Errorf("the address of nobody is %s", at)
	}
	w := httptest.NewRecorder()
	(&pass{owner: p, serving: []string{"apiserver-y"}}).ServeHTTP(w,
		httptest.NewRequest(http.MethodGet, "/apis/example.com/v1/widgets", nil))
	if w.Code != http.StatusServiceUnavailable ||
		!strings.Contains(w.Body.String(), "Error getting ip and port info of the remote server while proxying") {
		t.Errorf("passed on to nobody: %d %s", w.Code, w.Body)
	}
}
