package server

import (
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/apiserver/handlers/answer"
)

// authenticate finds out who asks, and takes the credentials out of the request.
func (s *Server) authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		response, ok, err := s.config.Authenticator.AuthenticateRequest(r)
		if err != nil || !ok {
			if err != nil {
				klog.FromContext(r.Context()).V(2).Info("Unable to authenticate the request", "err", err)
			}
			answer.Error(w, r, apierrors.NewUnauthorized("Unauthorized"))
			return
		}
		r.Header.Del("Authorization")
		next.ServeHTTP(w, r.WithContext(request.WithUser(r.Context(), response.User)))
	})
}

func (s *Server) impersonate(next http.Handler) http.Handler {
	if s.config.Impersonation == nil {
		return next
	}
	return s.config.Impersonation(next)
}

func isMaster(r *http.Request) bool {
	u, ok := request.UserFrom(r.Context())
	return ok && slices.Contains(u.GetGroups(), user.SystemPrivilegedGroup)
}

// authorize asks whether the user may do what the request says.
func (s *Server) authorize(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		attributes := attributesOf(r)
		decision, reason, err := s.config.Authorizer.Authorize(r.Context(), attributes)
		switch {
		case decision == authorizer.DecisionAllow:
			next.ServeHTTP(w, r)
		case err != nil:
			answer.Error(w, r, apierrors.NewInternalError(err))
		default:
			answer.Error(w, r, answer.Forbidden(attributes, reason))
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
