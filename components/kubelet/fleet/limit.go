package fleet

import (
	"io"
	"net/http"
	"strings"
	"sync"
)

// requestsAtOnce bounds the requests of all nodes that are on their way. Beyond the streams that a server allows a
// connection, 250, a client dials again for each request, and what the server has no seat for only waits there.
const requestsAtOnce = 100

// limited lets requests wait for a slot each, in the order in which they came. Renewals of leases pass, as a node must
// not seem lost because the pods of others start, and watches, which last.
type limited struct {
	slots chan struct{}
	next  http.RoundTripper
}

// RoundTrip implements http.RoundTripper. A slot is free again when the body of the response is closed.
func (l *limited) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasPrefix(r.URL.Path, "/apis/coordination.k8s.io/") || strings.Contains(r.URL.RawQuery, "watch=") {
		return l.next.RoundTrip(r)
	}
	select {
	case l.slots <- struct{}{}:
	case <-r.Context().Done():
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, r.Context().Err()
	}
	response, err := l.next.RoundTrip(r)
	if err != nil {
		<-l.slots
		return nil, err
	}
	response.Body = &slot{ReadCloser: response.Body, free: sync.OnceFunc(func() { <-l.slots })}
	return response, nil
}

// WrappedRoundTripper lets client-go find what is beneath.
func (l *limited) WrappedRoundTripper() http.RoundTripper { return l.next }

// slot is a body that holds a slot.
type slot struct {
	io.ReadCloser
	free func()
}

// Close frees the slot.
func (s *slot) Close() error {
	defer s.free()
	return s.ReadCloser.Close()
}
