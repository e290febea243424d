package health

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	testclock "k8s.io/utils/clock/testing"
)

// node answers with a status, or not at all while it is 0.
type node struct {
	*httptest.Server
	status atomic.Int32
	asked  chan struct{}
}

func newNode(t *testing.T, status int) *node {
	n := &node{asked: make(chan struct{}, 100)}
	n.status.Store(int32(status))
	n.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.asked <- struct{}{}
		if r.URL.Path != "/healthz" {
			t.Errorf("asked for %s", r.URL.Path)
		}
		status := int(n.status.Load())
		if status == 0 {
			<-r.Context().Done()
			return
		}
		w.WriteHeader(status)
	}))
	return n
}

func (n *node) target() Target { return netip.MustParseAddrPort(n.Listener.Addr().String()) }

func TestAnswersAreFollowed(t *testing.T) {
	defer goleak.VerifyNone(t)
	n := newNode(t, http.StatusServiceUnavailable)
	defer n.Close()
	clock := testclock.NewFakeClock(time.Unix(0, 0))
	changed := make(chan struct{}, 10)
	p := New(time.Second, 100*time.Millisecond, clock, func() { changed <- struct{}{} })
	defer p.Close()
	p.Watch(t.Context(), map[Target]bool{n.target(): true})
	<-n.asked
	answer := func(status int) { // until the change is noticed
		t.Helper()
		n.status.Store(int32(status))
		for {
			clock.Step(time.Second)
			select {
			case <-changed:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}
	if p.Healthy(n.target()) {
		t.Error("a node that answers 503 is healthy")
	}
	answer(http.StatusOK)
	if !p.Healthy(n.target()) {
		t.Error("a node that answers 200 is not healthy")
	}
	p.Watch(t.Context(), map[Target]bool{n.target(): true}) // known targets keep their state
	if !p.Healthy(n.target()) {
		t.Error("a node that is still watched was forgotten")
	}
	answer(http.StatusServiceUnavailable)
	if p.Healthy(n.target()) {
		t.Error("a node that answers 503 again is healthy")
	}
	p.Watch(t.Context(), nil)
	if p.Healthy(n.target()) {
		t.Error("a node that is not watched is healthy")
	}
}

// One probe without a response is tolerated, a refused connection is not.
func TestSilenceAndRefusal(t *testing.T) {
	defer goleak.VerifyNone(t)
	n := newNode(t, http.StatusOK)
	p := New(time.Millisecond, 50*time.Millisecond, testclock.NewFakeClock(time.Unix(0, 0)), func() {})
	defer p.Close()
	of := &probe{}
	p.targets[n.target()] = of
	of.stop = func() {}
	ask := func() bool {
		p.note(t.Context(), n.target(), of, p.ask(t.Context(), n.target()))
		return p.Healthy(n.target())
	}
	if !ask() {
		t.Fatal("200 is not healthy")
	}
	n.status.Store(0)
	if !ask() || ask() {
		t.Error("want healthy after one silence, not after two")
	}
	n.status.Store(http.StatusOK)
	if !ask() {
		t.Error("200 is not healthy")
	}
	n.CloseClientConnections()
	n.Close()
	if ask() {
		t.Error("a refused connection is healthy")
	}
}
