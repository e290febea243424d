package fleet

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

// answers is a server that answers at once.
type answers struct{}

func (answers) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(""))}, nil
}

func TestLimited(t *testing.T) {
	l := &limited{slots: make(chan struct{}, 1), next: answers{}}
	ask := func(ctx context.Context, path string) (*http.Response, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://localhost"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		return l.RoundTrip(r)
	}
	first, err := ask(t.Context(), "/api/v1/pods")
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if response, err := ask(ended, "/api/v1/pods"); !errors.Is(err, context.Canceled) {
		t.Errorf("a second request while the first has the only slot: %v, %v", response, err)
	}
	lease, err := ask(ended, "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node-0")
	if err != nil {
		t.Fatalf("a lease waited: %v", err)
	}
	watch, err := ask(ended, "/api/v1/services?watch=true")
	if err != nil {
		t.Fatalf("a watch waited: %v", err)
	}
	for _, body := range []io.Closer{lease.Body, watch.Body, first.Body, first.Body} {
		if err := body.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // the slot is free, and was freed once only
		response, err := ask(t.Context(), "/api/v1/pods")
		if err != nil {
			t.Fatal(err)
		}
		if len(l.slots) != 1 {
			t.Errorf("%d slots are taken, want 1", len(l.slots))
		}
		if err := response.Body.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

type fails struct{}

func (fails) RoundTrip(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF }

func TestLimitedFailure(t *testing.T) {
	l := &limited{slots: make(chan struct{}, 1), next: fails{}}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://localhost/api/v1/pods", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.RoundTrip(r); err == nil || len(l.slots) != 0 {
		t.Errorf("%d slots are taken after %v", len(l.slots), err)
	}
}
