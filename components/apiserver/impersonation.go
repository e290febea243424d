package apiserver

import (
	"net/http"

	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/endpoints/filters/impersonation"
)

// impersonation lets users act as others
// (https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation), also only for some
// requests (KEP-5284).
func (s *Server) impersonation(next http.Handler) http.Handler {
	return impersonation.WithConstrainedImpersonation(next, s.authz, serializer.NewCodecFactory(s.scheme).WithoutConversion())
}
