// Package inprocess lets parts of the server be its clients: their requests pass the whole chain of the server, with no
// connection, no TLS and no credentials in between.
package inprocess

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"
)

// Transport is an http.RoundTripper that gives requests to a handler. The response is there with its first byte, so
// that watches stream; closing its body, or the end of the request's context, ends the handler's context. Connections
// can't be taken over: there are none.
type Transport struct {
	// Handler may be set until the first request.
	Handler http.Handler
	// User is who asks. The handler finds it in the context of the request.
	User user.Info

	base atomic.Pointer[context.Context]
}

// SetBaseContext has requests take over the values of ctx, such as its logger, from now on: it is to them what
// BaseContext of http.Server is to requests that come by a connection. The end of ctx is not theirs.
func (t *Transport) SetBaseContext(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	t.base.Store(&ctx)
}

func (t *Transport) baseContext() context.Context {
	if ctx := t.base.Load(); ctx != nil {
		return *ctx
	}
	return context.Background()
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.Handler == nil {
		return nil, errors.New("the server is not made yet")
	}
	// Nothing but its end is taken over from the client's context: a request that is made on behalf of another is a
	// request of its own.
	ctx, cancel := context.WithCancelCause(t.baseContext())
	unhook := context.AfterFunc(r.Context(), func() { cancel(context.Cause(r.Context())) })
	body, w := io.Pipe()
	out := &writer{body: w, header: http.Header{}, started: make(chan struct{})}
	response := &http.Response{
		Proto: "HTTP/2.0", ProtoMajor: 2, Request: r, ContentLength: -1,
		Body: &closer{PipeReader: body, cancel: func() { cancel(errClosed) }},
	}
	in := r.Clone(request.WithUser(ctx, t.User))
	in.RequestURI = r.URL.RequestURI()
	in.RemoteAddr = "127.0.0.1:0"
	if in.Body == nil {
		in.Body = http.NoBody
	}
	// A reader that waits learns of the end even if the handler, which is to end too, is slow to.
	context.AfterFunc(ctx, func() { _ = w.CloseWithError(context.Cause(ctx)) })
	go func() {
		defer cancel(nil)
		defer unhook()
		defer func() { _ = in.Body.Close() }()
		err := out.serve(t.Handler, in)
		if err == nil {
			err = context.Cause(ctx) // an end that was asked for is not the response's
		}
		_ = w.CloseWithError(err) // before cancel: what was written first counts
	}()
	select {
	case <-out.started:
	case <-ctx.Done():
		select {
		case <-out.started: // a short response is over already
		default:
			return nil, context.Cause(ctx)
		}
	}
	response.StatusCode, response.Header = out.code, out.sent
	response.Status = fmt.Sprintf("%d %s", out.code, http.StatusText(out.code))
	return response, nil
}

var errClosed = errors.New("the response was closed")

// closer is a body whose end is the end of the request.
type closer struct {
	*io.PipeReader
	cancel func()
}

func (c *closer) Close() error {
	c.cancel()
	return c.PipeReader.Close()
}

// writer implements http.ResponseWriter and http.Flusher over a pipe.
type writer struct {
	body    *io.PipeWriter
	header  http.Header
	once    sync.Once
	started chan struct{} // closed when code and sent are there
	code    int
	sent    http.Header // as it was when the response began
}

func (w *writer) Header() http.Header { return w.header }

func (w *writer) WriteHeader(code int) {
	if code < 200 {
		return // informational: more is to come
	}
	w.once.Do(func() {
		w.code, w.sent = code, w.header.Clone()
		close(w.started)
	})
}

func (w *writer) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(p)
}

// Flush has nothing to do: what is written is read.
func (w *writer) Flush() { w.WriteHeader(http.StatusOK) }

// serve returns what the reader of the body gets in the end: nil for its proper end.
func (w *writer) serve(h http.Handler, r *http.Request) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the response was cut: %v", p)
			w.WriteHeader(http.StatusInternalServerError)
		}
	}()
	h.ServeHTTP(w, r)
	w.WriteHeader(http.StatusOK)
	return nil
}

// Config is a client's configuration that goes through t, without a bound on its rate.
func (t *Transport) Config() *rest.Config {
	return &rest.Config{Host: "https://kubernetes.default.svc", Transport: t, QPS: -1}
}
