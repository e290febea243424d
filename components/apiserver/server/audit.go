package server

import (
	"bufio"
	"net"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/endpoints/request"

	"quintet.dev/quintet/components/apiserver/handlers/answer"
	"quintet.dev/quintet/components/apiserver/latency"
)

// Audit are the filters that write down what is asked and answered.
type Audit interface {
	// Begin wraps the whole way of a request, whose identity is in the header of the response.
	Begin(next http.Handler) http.Handler
	// Record wraps what comes after authentication.
	Record(next http.Handler, longRunning request.LongRunningRequestCheck) http.Handler
	// Refused wraps what answers requests that don't get that far.
	Refused(answer http.Handler) http.Handler
}

func (s *Server) beginAudit(next http.Handler) http.Handler {
	if s.config.Audit == nil {
		return next
	}
	return s.config.Audit.Begin(next)
}

// audit also cuts the connections of answers whose rest can't be sent: after they are written down, as what they were
// until then.
func (s *Server) audit(next http.Handler) http.Handler {
	var recorded http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			switch p := recover(); p {
			case nil:
			case answer.Cut:
				requestStateOf(r).cut = true
			default:
				panic(p)
			}
		}()
		next.ServeHTTP(w, r)
	})
	if s.config.Audit != nil {
		recorded = s.config.Audit.Record(recorded, LongRunning)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if times := requestStateOf(r).times; times != nil {
			w = &writing{w, times}
		}
		recorded.ServeHTTP(w, r)
		if requestStateOf(r).cut {
			panic(http.ErrAbortHandler)
		}
	})
}

// refuse answers a request that doesn't get past authentication.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	s.refuseBy(w, r, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer.Error(w, r, err) }))
}

// refuseUnasked answers a request that doesn't get as far as authentication, of which the audit would tell otherwise.
func (s *Server) refuseUnasked(w http.ResponseWriter, r *http.Request, err error) {
	s.refuseBy(w, r, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if event := audit.AuditContextFrom(r.Context()); event.Enabled() {
			event.SetEventResponseStatus(&metav1.Status{Message: err.Error()})
		}
		answer.Error(w, r, err)
	}))
}

func (s *Server) refuseBy(w http.ResponseWriter, r *http.Request, h http.Handler) {
	if s.config.Audit != nil {
		h = s.config.Audit.Refused(h)
	}
	h.ServeHTTP(w, r)
}

// writing notes how long it takes to write an answer.
type writing struct {
	http.ResponseWriter
	times *latency.Times
}

func (w *writing) Write(p []byte) (int, error) {
	defer w.times.Add(latency.Writing, w.times.Begin())
	return w.ResponseWriter.Write(p)
}

// Flush implements http.Flusher.
func (w *writing) Flush() { _ = http.NewResponseController(w.ResponseWriter).Flush() }

// Hijack implements http.Hijacker, for connections that are upgraded.
func (w *writing) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(w.ResponseWriter).Hijack()
}

// Unwrap lets http.ResponseController through, and implements responsewriter.UserProvidedDecorator.
func (w *writing) Unwrap() http.ResponseWriter { return w.ResponseWriter }
