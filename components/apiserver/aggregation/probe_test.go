package aggregation

import (
	"context"
	"errors"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/apiserver/aggregation/aggregationtest"
	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/objects"
	"quintet.dev/quintet/components/apiserver/objects/objectstest"
)

// roundTrip is an http.RoundTripper.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func probed(clock *clocktesting.FakeClock, store objects.Store, via roundTrip) *remote {
	services := &onLoopback{}
	services.port.Store(443)
	return &remote{
		name:  "v1.zoo.example.com",
		owner: &Aggregator{config: Config{Services: services, Clock: clock, Objects: store}}, via: via,
		spec: &apiregistrationv1.APIServiceSpec{Group: "zoo.example.com", Version: "v1",
			Service: &apiregistrationv1.ServiceReference{Namespace: "default", Name: "zoo"}},
	}
}

// TestProbePassesByWhoHangs: one endpoint that doesn't answer doesn't delay the judgement for as long as it is waited
// for.
func TestProbePassesByWhoHangs(t *testing.T) {
	clock := clocktesting.NewFakeClock(testTime)
	var asked atomic.Int32
	var ended atomic.Value
	r := probed(clock, nil, func(r *http.Request) (*http.Response, error) {
		if asked.Add(1) > 1 {
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, nil
		}
		for !clock.HasWaiters() {
			runtime.Gosched()
		}
		clock.Step(checkPatience)
		<-r.Context().Done()
		ended.Store(r.Context().Err())
		return nil, r.Context().Err()
	})
	if err := r.probe(t.Context()); err != nil {
		t.Error(err)
	}
	if why, _ := ended.Load().(error); !errors.Is(why, context.Canceled) {
		t.Errorf("the first attempt ended with %v: it was waited for", why)
	}
	if n := asked.Load(); n > 1+moreAttempts {
		t.Errorf("asked %d times", n)
	}
}

// TestProbeFails once all attempts have.
func TestProbeFails(t *testing.T) {
	var asked atomic.Int32
	r := probed(clocktesting.NewFakeClock(testTime), nil, func(r *http.Request) (*http.Response, error) {
		asked.Add(1)
		return &http.Response{StatusCode: http.StatusForbidden, Body: http.NoBody, Request: r}, nil
	})
	if err := r.probe(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "bad status from https://127.0.0.1:443/apis/zoo.example.com/v1: 403") {
		t.Errorf("%v", err)
	}
	if n := asked.Load(); n != 1+moreAttempts {
		t.Errorf("asked %d times", n)
	}
}

// TestTimeoutIsTheClients: who asks doesn't wait any longer, though there is still time for the check as a whole.
func TestTimeoutIsTheClients(t *testing.T) {
	r := probed(clocktesting.NewFakeClock(testTime), nil, func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	})
	_, err := r.get(t.Context(), "/slow", nil, time.Millisecond)
	if timeout := net.Error(nil); !errors.As(err, &timeout) || !timeout.Timeout() || t.Context().Err() != nil {
		t.Errorf("%v", err)
	}
}

// unreadable is a store of which one resource can't be read.
type unreadable struct {
	*objectstest.Store
	resource schema.GroupResource
}

func (u unreadable) Get(ctx context.Context, resource schema.GroupResource, namespace, name string) (api.Object,
	error) {
	if resource == u.resource {
		return nil, errors.New("not now")
	}
	return u.Store.Get(ctx, resource, namespace, name)
}

func (u unreadable) List(ctx context.Context, resource schema.GroupResource, namespace string) ([]api.Object, error) {
	if resource == u.resource {
		return nil, errors.New("not now")
	}
	return u.Store.List(ctx, resource, namespace)
}

// TestUnknown: what can't be looked at is not said to be missing.
func TestUnknown(t *testing.T) {
	for what, reason := range map[schema.GroupResource]string{services: "ServiceAccessError",
		endpointSlices: "EndpointsAccessError"} {
		store := &objectstest.Store{}
		store.Put(services, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "zoo"},
			Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP},
		})
		c := probed(clocktesting.NewFakeClock(testTime), unreadable{store, what}, nil).check(t.Context())
		if c.Status != apiregistrationv1.ConditionUnknown || c.Reason != reason ||
			c.Message != `service/zoo in "default" cannot be checked due to: not now` {
			t.Errorf("%s: %+v", what, c)
		}
	}
}

// TestBusyDiscoveryIsStale: a server that can't tell just now what it serves isn't taken for one that only knows the
// plain form.
func TestBusyDiscoveryIsStale(t *testing.T) {
	server := (&aggregationtest.Server{}).Start(t)
	f := start(t, server)
	f.untilServed(t)
	server.SickenBut(http.StatusServiceUnavailable, "/apis/"+aggregationtest.GroupVersion.String())
	f.until(t, "is stale", func() bool { return f.described() == "Stale" })
	if reason := f.condition(t).Reason; reason != "Passed" {
		t.Errorf("it is %s", reason)
	}
	server.SickenBut(http.StatusNotFound, "/apis/"+aggregationtest.GroupVersion.String())
	f.untilServed(t)
	all := server.Requests("/apis/" + aggregationtest.GroupVersion.String())
	plainly := 0
	for _, r := range all {
		if r.Header.Get("Accept") == "application/json" {
			plainly++
			if r.Header.Get("X-Remote-User") != prober || r.Header.Get("X-Remote-Group") != "" {
				t.Errorf("the plain form is asked for by %v", r.Header)
			}
		}
	}
	if plainly == 0 {
		t.Error("the plain form is not asked for")
	}
}
