package server

import (
	"net/http"
	"slices"
	"time"

	"quintet.dev/quintet/components/apiserver/tracing"
)

// A filter does one thing to every request before, or instead of, passing it on.
type filter func(next http.Handler) http.Handler

// chain is what every request passes, in this order.
func (s *Server) chain(end http.Handler) http.Handler {
	filters := []filter{
		s.countActive,
		s.recoverPanics,
		s.withAuditID,
		s.beginAudit,
		s.withRequestInfo,
		s.metrics.withMetrics,
		s.retryLater,
		s.withEdge,
		s.rejectDraining,
		s.withDeadline,
		s.withWarnings,
		s.authenticate,
		s.trace,
		s.timed("audit", s.audit),
		s.timed(s.config.Impersonation.Name, s.impersonate),
		s.metrics.countDropped,
		s.withFlowControl(),
		s.spanned("authorization", s.authorize),
		s.metrics.countReached,
	}
	if s.config.Last != nil {
		filters = append(filters, s.config.Last)
	}
	for _, f := range slices.Backward(filters) {
		end = f(end)
	}
	return end
}

// withFlowControl limits the concurrent requests.
func (s *Server) withFlowControl() filter {
	if s.config.Fairness == nil {
		return s.limitInFlight
	}
	return s.timed("priorityandfairness", s.config.Fairness)
}

// timed measures what a filter takes until it passes a request on.
func (s *Server) timed(name string, f filter) filter {
	f = s.spanned(name, f)
	took := s.metrics.access.filters.get(name)
	return func(next http.Handler) http.Handler {
		inside := f(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			took.Observe(time.Since(requestStateOf(r).entered).Seconds())
			next.ServeHTTP(w, r)
		}))
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			requestStateOf(r).entered = time.Now()
			inside.ServeHTTP(w, r)
		})
	}
}

// spanned makes a filter, and all behind it, a part of the trace of a request.
func (s *Server) spanned(name string, f filter) filter {
	if s.config.Tracing == nil {
		return f
	}
	return func(next http.Handler) http.Handler {
		inside := f(next)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx, span := tracing.Part(r.Context(), name)
			defer span.End()
			inside.ServeHTTP(w, r.WithContext(ctx))
		})
	}
}
