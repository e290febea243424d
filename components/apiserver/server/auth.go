package server

import (
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/apiserver/handlers/answer"
	"quintet.dev/quintet/components/apiserver/latency"
)

// authenticate determines the user of a request; the authenticator removes the credentials from the request. Requests
// from within the process come with their user in the context, which no request that came over a connection can set.
func (s *Server) authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, known := request.UserFrom(r.Context()); known {
			next.ServeHTTP(w, r)
			return
		}
		start := time.Now()
		response, ok, err := s.config.Authenticator.AuthenticateRequest(r)
		requestStateOf(r).times.Add(latency.Authentication, start)
		if err != nil || !ok {
			s.metrics.access.authenticated(nil, err, start)
			s.metrics.access.filters.get("authentication").Observe(time.Since(start).Seconds())
			closeConnAfterResponse(w, r)
			if err != nil {
				klog.FromContext(r.Context()).V(2).Info("Unable to authenticate the request", "err", err)
			}
			s.refuse(w, r, apierrors.NewUnauthorized("Unauthorized"))
			return
		}
		s.metrics.access.authenticated(response.User, nil, start)
		s.metrics.access.filters.get("authentication").Observe(time.Since(start).Seconds())
		if isAnonymous(response.User) {
			closeConnAfterResponse(w, r)
		}
		requestStateOf(r).user = response.User
		next.ServeHTTP(w, r)
	})
}

func isAnonymous(u user.Info) bool {
	return u.GetName() == user.Anonymous || slices.Contains(u.GetGroups(), user.AllUnauthenticated)
}

// closeConnAfterResponse ends a connection of HTTP/2 after this request: unauthenticated clients must not flood the
// server with streams (CVE-2023-44487).
func closeConnAfterResponse(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 2 {
		w.Header().Set("Connection", "close")
	}
}

func (s *Server) impersonate(next http.Handler) http.Handler {
	if s.config.Impersonation.Filter == nil {
		return next
	}
	return s.config.Impersonation.Filter(next)
}

func isMaster(r *http.Request) bool {
	u, ok := request.UserFrom(r.Context())
	return ok && slices.Contains(u.GetGroups(), user.SystemPrivilegedGroup)
}

// Annotations of audit events (https://kubernetes.io/docs/reference/labels-annotations-taints/audit-annotations/).
const (
	annotationDecision = "authorization.k8s.io/decision"
	annotationReason   = "authorization.k8s.io/reason"
)

// authorize asks whether the user may do what the request says.
func (s *Server) authorize(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		attributes := attributesOf(r)
		start := time.Now()
		decision, reason, err := s.config.Authorizer.Authorize(r.Context(), attributes)
		requestStateOf(r).times.Add(latency.Authorization, start)
		s.metrics.access.authorized(decision, err, start)
		switch {
		case decision == authorizer.DecisionAllow:
			audit.AddAuditAnnotations(r.Context(), annotationDecision, "allow", annotationReason, reason)
			s.metrics.access.filters.get("authorization").Observe(time.Since(start).Seconds())
			next.ServeHTTP(w, r)
		case err != nil:
			audit.AddAuditAnnotation(r.Context(), annotationReason, "internal error")
			answer.Internal(w, r, err)
		default:
			audit.AddAuditAnnotations(r.Context(), annotationDecision, "forbid", annotationReason, reason)
			answer.Forbid(w, r, attributes, reason)
		}
	})
}

func attributesOf(r *http.Request) authorizer.AttributesRecord {
	info := infoOf(r)
	out := authorizer.AttributesRecord{
		Verb: info.Verb, Path: info.Path, ResourceRequest: info.IsResourceRequest,
		APIGroup: info.APIGroup, APIVersion: info.APIVersion, Resource: info.Resource, Subresource: info.Subresource,
		Namespace: info.Namespace, Name: info.Name,
	}
	if u, ok := request.UserFrom(r.Context()); ok {
		out.User = u
	}
	selectAttributes(&out, info)
	return out
}
