package server

import (
	"io"
	"net/http"

	"k8s.io/apiserver/pkg/endpoints/request"
)

// body measures what a client sends with a request that changes something, of which upstream counts what has been read
// to its end.
type body struct {
	io.ReadCloser
	announced int64
	size      int64
	ended     bool
}

// follow puts the measure between a request and its body.
func (b *body) follow(r *http.Request, of served, info *request.RequestInfo) {
	switch {
	case of.verb == "CONNECT" || bodyVerb(info.Verb) == "":
	case r.Body == nil || r.Body == http.NoBody:
		b.ended = true
	default:
		b.ReadCloser, b.announced = r.Body, r.ContentLength
		r.Body = b
	}
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.size += int64(n)
	b.ended = b.ended || err == io.EOF || b.size == b.announced
	return n, err
}

// bodyVerb is a verb in the form of the metric of bodies; there are none of others.
func bodyVerb(verb string) string {
	switch verb {
	case "create", "update", "patch", "delete":
		return verb
	case "deletecollection":
		return "delete_collection"
	}
	return ""
}

// noteBody measures a body, unless it was refused for what the header says of it: one that is empty needn't be read to
// be at its end.
func (m *metrics) noteBody(info *request.RequestInfo, b *body, code int) {
	if !b.ended || b.size == 0 &&
		(code == http.StatusMethodNotAllowed || code == http.StatusNotAcceptable ||
			code == http.StatusUnsupportedMediaType) {
		return
	}
	m.bodies.WithLabelValues(info.APIGroup, info.Resource, bodyVerb(info.Verb)).Observe(float64(b.size))
}
