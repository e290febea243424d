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

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	testingclock "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/apiserver/storage/memory"
	"quintet.dev/quintet/internal/certs"
)

// TestPassUnanswered: the peer doesn't answer. A client whose timeout expires gets the same error as if it had been
// served here.
func TestPassUnanswered(t *testing.T) {
	authority, err := certs.NewAuthority("front")
	if err != nil {
		t.Fatal(err)
	}
	ca := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(ca, authority.Cert, 0o600); err != nil {
		t.Fatal(err)
	}
	clock := testingclock.NewFakeClock(time.Unix(0, 0))
	store := memory.New(clock)
	defer store.Close()
	p, err := New(Config{
		ID: "other", Address: "192.0.2.1:443", Store: store, Prefix: "/registry", Clock: clock, CAFile: ca,
		Changed:     func(map[string][]apidiscoveryv2.APIGroupDiscovery) {},
		Certificate: func() *tls.Certificate { return nil },
		Dial: func(_ context.Context, _, address string) (net.Conn, error) {
			return nil, errors.New("no way to " + address)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if p.transport.Load().TLSNextProto["h2"] == nil {
		t.Error("connections that are dead aren't noticed by pings of HTTP/2")
	}
	if err := p.tellAddress(t.Context()); err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer cancel()
	for _, test := range []struct {
		ctx  context.Context
		code int
		text string
	}{
		{t.Context(), http.StatusServiceUnavailable, "no way to 192.0.2.1:443"},
		{over, http.StatusGatewayTimeout, "Timeout: request did not complete within the allotted timeout"},
	} {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/apis/zoo.io/v1/things", nil)
		to := &pass{owner: p, resource: schema.GroupVersionResource{Group: "zoo.io", Version: "v1", Resource: "things"},
			serving: []string{"other"}}
		ctx := request.WithUser(test.ctx, &user.DefaultInfo{Name: "alice"})
		to.ServeHTTP(w, r.WithContext(ctx))
		if w.Code != test.code || !strings.Contains(w.Body.String(), test.text) {
			t.Errorf("%d %s, want %d %s", w.Code, w.Body, test.code, test.text)
		}
	}
}

// TestAsked: a version that is no longer served is looked for nowhere else, however long others go on to tell of it.
func TestAsked(t *testing.T) {
	got := asked(&apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{
		Group: "zoo.io", Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true},
			{Name: "v1beta1"}},
	}})
	if len(got) != 2 || got[1] != (schema.GroupVersion{Group: "zoo.io", Version: "v1beta1"}) {
		t.Errorf("%v", got)
	}
}
