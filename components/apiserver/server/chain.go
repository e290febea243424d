package server

import (
	"net/http"
	"slices"
)

// A filter does one thing to every request before, or instead of, passing it on.
type filter func(next http.Handler) http.Handler

// chain is what every request passes, in this order.
func (s *Server) chain(end http.Handler) http.Handler {
	filters := []filter{
		s.growStack,
		s.countActive,
		s.recoverPanics,
		s.withAuditID,
		s.beginAudit,
		s.withRequestInfo,
		s.withMetrics,
		s.retryLater,
		s.withEdge,
		s.withDeadline,
		s.withWarnings,
		s.authenticate,
		s.trace,
		s.audit,
		s.impersonate,
		s.countInFlight,
		s.limitInFlight,
		s.authorize,
	}
	for _, f := range slices.Backward(filters) {
		end = f(end)
	}
	return end
}
