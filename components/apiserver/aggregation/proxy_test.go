package aggregation

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/util/flowcontrol"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"quintet.dev/quintet/components/apiserver/aggregation/aggregationtest"
)

// TestTimeIsOver: a client whose time is over is told so as if the request had been served here.
func TestTimeIsOver(t *testing.T) {
	server := (&aggregationtest.Server{}).Start(t)
	f := start(t, server)
	f.untilServed(t)
	ctx, cancel := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer cancel()
	w := f.ask(t, get(things).WithContext(ctx))
	if w.Code != http.StatusGatewayTimeout || !strings.Contains(w.Body.String(), `"reason":"Timeout"`) ||
		!strings.Contains(w.Body.String(), "Timeout: request did not complete within the allotted timeout") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// begun is an InitializationSignal without waiters.
type begun struct{ signalled atomic.Bool }

func (b *begun) Signal() { b.signalled.Store(true) }
func (b *begun) Wait()   {}

// TestWatchesGiveTheirTurnBack: what another server serves is no burden for this one.
func TestWatchesGiveTheirTurnBack(t *testing.T) {
	server := (&aggregationtest.Server{}).Start(t)
	f := start(t, server)
	f.untilServed(t)
	signal, signalled := &begun{}, atomic.Bool{}
	server.Meanwhile(things, func() { signalled.Store(signal.signalled.Load()) })
	w, r := httptest.NewRecorder(), get(things+"?watch=true")
	ctx := flowcontrol.WithInitializationSignal(request.WithUser(r.Context(), alice), signal)
	f.Route(r).ServeHTTP(w, r.WithContext(ctx))
	if w.Code != http.StatusOK || !signalled.Load() {
		t.Errorf("%d, the turn was over while the other served it: %v", w.Code, signalled.Load())
	}
}

// traced writes into requests that it is traced.
type traced struct{ via http.RoundTripper }

func (t traced) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Traceparent", "of the server in front")
	return t.via.RoundTrip(r)
}

// TestTellsOfTraces: the spans of extension servers are to be found below those of requests.
func TestTellsOfTraces(t *testing.T) {
	server := (&aggregationtest.Server{}).Start(t)
	f := start(t, server, func(c *Config, _ *apiregistrationv1.APIServiceSpec) {
		c.Traced = func(via http.RoundTripper) http.RoundTripper { return traced{via} }
	})
	f.untilServed(t)
	f.ask(t, get(things))
	if in := server.Requests(things); len(in) != 1 || in[0].Header.Get("Traceparent") != "of the server in front" {
		t.Errorf("%+v", in)
	}
}
