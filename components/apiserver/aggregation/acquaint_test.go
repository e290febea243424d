package aggregation

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"

	"quintet.dev/quintet/components/apiserver/aggregation/aggregationtest"
)

// change changes the APIService, and makes a pass.
func (f *fixture) change(t *testing.T, change func(*apiService)) {
	t.Helper()
	obj, err := f.store.Get(t.Context(), resource, "", f.name)
	if err != nil {
		t.Fatal(err)
	}
	s := obj.(*apiService).DeepCopy()
	change(s)
	f.store.Put(resource, s)
	if err := f.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) acquaint(t *testing.T) {
	t.Helper()
	if err := f.Acquaint(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func makeAvailable(s *apiService) {
	helper.SetAPIServiceCondition(s,
		apiregistrationv1.APIServiceCondition{Type: apiregistrationv1.Available,
			Status: apiregistrationv1.ConditionTrue})
}

// TestAcquaint: a server that has just started knows what others serve before it is ready, and asks only who is
// believed to be there.
func TestAcquaint(t *testing.T) {
	server := (&aggregationtest.Server{}).Start(t)
	f := prepare(t, server)
	f.acquaint(t)
	if n := len(server.Requests("/apis")); n != 0 || f.described() != "Stale" {
		t.Errorf("who isn't available is asked %d times, and described as %q", n, f.described())
	}
	f.change(t, makeAvailable)
	f.acquaint(t)
	if got := f.described(); got != "Current things[status]" {
		t.Errorf("described as %q", got)
	}
	f.close()
}

// close drops the connections of an aggregator that doesn't run.
func (f *fixture) close() {
	for _, r := range f.remotes {
		r.close()
	}
}

// TestKeepsWhatIsKnown: a change of the connection to a server doesn't make its resources disappear.
func TestKeepsWhatIsKnown(t *testing.T) {
	server := (&aggregationtest.Server{}).Start(t)
	f := prepare(t, server)
	f.change(t, makeAvailable)
	f.acquaint(t)
	document := f.told().Sources[0].DocumentV2(t.Context())
	server.Sicken(http.StatusInternalServerError)
	former := f.remotes[f.name]
	former.close()
	f.change(t, func(s *apiService) { s.Spec.VersionPriority++ })
	if got := f.described(); f.remotes[f.name] == former || got != "Current things[status]" {
		t.Errorf("after a change: described as %q", got)
	}
	if now := f.told().Sources[0].DocumentV2(t.Context()); now == nil || document == nil || now.Hash != document.Hash {
		t.Errorf("after a change: documented as %v, before as %v", now, document)
	}
	f.close()
	f.change(t, func(s *apiService) { s.Spec.Service.Name = "another" })
	if got := f.described(); got != "Stale" {
		t.Errorf("with another Service: described as %q", got)
	}
}

// TestConnectsAnew: a connection may be what is wrong, so the one by which a server failed isn't used again.
func TestConnectsAnew(t *testing.T) {
	var dials atomic.Int32
	server := (&aggregationtest.Server{}).Start(t)
	f := prepare(t, server, func(c *Config, _ *apiregistrationv1.APIServiceSpec) {
		c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			dials.Add(1)
			return (&net.Dialer{}).DialContext(ctx, network, address)
		}
	})
	defer f.close()
	r := f.remotes[f.name]
	for i, test := range []struct{ sick, dials int }{{0, 1}, {0, 1}, {http.StatusInternalServerError, 1}, {0, 2}} {
		server.Sicken(test.sick)
		if err := r.probeOnce(t.Context()); (err != nil) != (test.sick != 0) {
			t.Errorf("probe %d: %v", i, err)
		}
		if n := int(dials.Load()); n != test.dials {
			t.Errorf("after probe %d: %d connections, want %d", i, n, test.dials)
		}
	}
}

// TestTransport: dead connections are noticed by pings of HTTP/2, and the environment's proxy is for what is outside of
// the cluster.
func TestTransport(t *testing.T) {
	made, err := newTransport(
		&apiregistrationv1.APIServiceSpec{
			Service: &apiregistrationv1.ServiceReference{Namespace: "default", Name: "zoo"}}, nil, nil)
	if err != nil || made.TLSNextProto["h2"] == nil || made.Proxy == nil {
		t.Fatalf("%+v, %v", made, err)
	}
	for _, host := range []string{"10.0.0.1:443", "[fd00::1]:443"} {
		if via, err := made.Proxy(httptest.NewRequest(http.MethodGet, "https://"+host+"/apis", nil)); via != nil ||
			err != nil {
			t.Errorf("%s by %v, %v", host, via, err)
		}
	}
}
