package server

import (
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	endpointmetrics "k8s.io/apiserver/pkg/endpoints/metrics"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/apiserver/latency"
)

// countActive counts the requests that a shutdown waits for.
func (s *Server) countActive(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.active.Add(1)
		defer s.active.Add(-1)
		next.ServeHTTP(w, r)
	})
}

// recoverPanics cuts off a request whose handler panicked, as upstream does: a partial answer must not be used.
func (s *Server) recoverPanics(next http.Handler) http.Handler {
	resolver := newResolver()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			switch p := recover(); p {
			case nil:
				return
			case http.ErrAbortHandler: // as asked
				info, _ := resolver.NewRequestInfo(r) // nil is counted as well
				endpointmetrics.RecordRequestAbort(r, info)
			default:
				klog.FromContext(r.Context()).Error(fmt.Errorf("%v", p), "A request panicked",
					"method", r.Method, "path", r.URL.Path, "stack", string(debug.Stack()))
			}
			panic(http.ErrAbortHandler)
		}()
		next.ServeHTTP(w, r)
	})
}

// headerAuditID is audit.HeaderAuditID as headers are kept.
const headerAuditID = "Audit-Id"

// uncached is shared by all responses: headers are replaced, or appended to beyond its capacity, but never changed.
var uncached = []string{"no-cache, private"}

// withAuditID gives the request an identity that it carries through logs; the client may choose it.
func (s *Server) withAuditID(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get(headerAuditID)
		if id == "" {
			id = uuid.NewString()
		}
		h := w.Header()
		h[headerAuditID] = []string{id}
		h["Cache-Control"] = uncached
		next.ServeHTTP(w, r)
	})
}

// newResolver makes what reads verb, resource and name from a path.
func newResolver() *request.RequestInfoFactory {
	return &request.RequestInfoFactory{
		APIPrefixes:          sets.NewString("api", "apis"),
		GrouplessAPIPrefixes: sets.NewString("api"),
	}
}

// noHTML keeps what a client chose from being read as HTML.
var noHTML = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

func (s *Server) withRequestInfo(next http.Handler) http.Handler {
	resolver := newResolver()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, err := resolver.NewRequestInfo(r)
		if err != nil {
			w.Header().Del("Cache-Control")
			http.Error(w, noHTML.Replace(
				fmt.Sprintf("Internal Server Error: %q: failed to create RequestInfo: %v", r.RequestURI, err)),
				http.StatusInternalServerError)
			return
		}
		a := &requestState{Context: r.Context(), info: info, early: s.config.Installed != nil && !s.config.Installed()}
		if s.config.Audit != nil && info.Verb != "watch" {
			a.times = &latency.Times{}
		}
		next.ServeHTTP(w, r.WithContext(a))
	})
}

// setContext gives a request that belongs to the chain another context. withRequestInfo made the copy that does;
// further ones would be most of what a small request leaves for the garbage collector.
func setContext(r *http.Request, ctx context.Context) { *r = *r.WithContext(ctx) }

func infoOf(r *http.Request) *request.RequestInfo {
	info, _ := request.RequestInfoFrom(r.Context())
	return info
}

// LongRunning tells which requests have no deadline and don't count as in flight.
func LongRunning(r *http.Request, info *request.RequestInfo) bool {
	if info.Verb == "watch" || info.Verb == "proxy" {
		return true
	}
	switch info.Subresource {
	case "attach", "exec", "log", "portforward", "proxy":
		return info.IsResourceRequest
	}
	return strings.HasPrefix(r.URL.Path, "/debug/pprof/")
}

// withDeadline bounds short requests by the timeout that the client asks for, or the server's. The context of
// long-running ones ends when the server stops.
func (s *Server) withDeadline(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info := infoOf(r)
		if LongRunning(r, info) {
			s.longRunning.Add(1)
			defer s.longRunning.Add(-1)
			ctx, cancel := context.WithCancel(r.Context())
			defer cancel()
			defer context.AfterFunc(s.stop, func() { s.endInTurn(ctx, cancel) })()
			setContext(r, ctx)
			next.ServeHTTP(w, r)
			return
		}
		timeout := s.config.RequestTimeout
		if strings.Contains(r.URL.RawQuery, "timeout=") {
			if given := r.URL.Query().Get("timeout"); given != "" {
				asked, err := time.ParseDuration(given)
				if err != nil {
					s.refuseUnasked(w, r, apierrors.NewBadRequest(
						fmt.Sprintf("invalid timeout specified in the request URL - %v", err)))
					return
				}
				if asked > 0 {
					timeout = min(timeout, asked)
				}
			}
		}
		ctx, cancel := context.WithTimeout(r.Context(), timeout)
		defer cancel()
		defer s.cutOff(timeout, w)()
		setContext(r, ctx)
		next.ServeHTTP(w, r)
	})
}

// responseGrace is how long a request that has timed out may take to write its response.
const responseGrace = 5 * time.Second

// cutOff makes writes fail when the time of a request is over: a client that doesn't read its answer must not keep the
// handler, and its place among the requests in flight. The returned function ends that; it is called before the handler
// returns.
func (s *Server) cutOff(after time.Duration, w http.ResponseWriter) (end func()) {
	c := &cutter{w: w, responseGrace: s.responseGrace}
	c.timer = time.AfterFunc(after, c.off)
	return c.end
}

type cutter struct {
	w             http.ResponseWriter
	responseGrace time.Duration
	timer         *time.Timer

	mu    sync.Mutex
	ended bool
}

func (c *cutter) off() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		_ = http.NewResponseController(c.w).SetWriteDeadline(time.Now().Add(c.responseGrace))
	}
}

func (c *cutter) end() {
	if c.timer.Stop() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	_ = http.NewResponseController(c.w).SetWriteDeadline(time.Time{}) // the connection may serve others
}

// trace comes after authentication: only authenticated users may ask for sampling.
func (s *Server) trace(next http.Handler) http.Handler {
	if s.config.Tracing == nil {
		return next
	}
	return s.config.Tracing(next)
}

// limitInFlight sees to it that not too many short requests are served at a time, where there is no fairness: it
// answers the others with 429. Those of the masters of the system are served even then, beyond the bound: so an
// overload can be looked at.
func (s *Server) limitInFlight(next http.Handler) http.Handler {
	reading := slots(s.config.MaxInFlight)
	mutating := slots(s.config.MaxMutatingInFlight)
	s.peaks.bound(s.config.MaxInFlight, s.config.MaxMutatingInFlight)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info := infoOf(r)
		pool, most := mutating, &s.peaks.mutating
		if reads(info) {
			pool, most = reading, &s.peaks.reading
		}
		if pool == nil || LongRunning(r, info) {
			next.ServeHTTP(w, r)
			return
		}
		select {
		case pool <- struct{}{}:
			most.note(len(pool))
			defer func() {
				<-pool
				most.note(len(pool))
			}()
			next.ServeHTTP(w, r)
		default:
			if isMaster(r) {
				next.ServeHTTP(w, r)
				return
			}
			endpointmetrics.RecordRequestTermination(r, info, endpointmetrics.APIServerComponent,
				http.StatusTooManyRequests)
			w.Header().Set("Retry-After", "1")
			http.Error(w, "Too many requests, please try again later.", http.StatusTooManyRequests)
		}
	})
}

func reads(info *request.RequestInfo) bool {
	return info.Verb == "get" || info.Verb == "list" || info.Verb == "watch"
}

func slots(n int) chan struct{} {
	if n <= 0 {
		return nil
	}
	return make(chan struct{}, n)
}
