package apiserver

import (
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/endpoints/filters/impersonation"
)

// impersonation lets users act as others
// (https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation), also only for some
// requests (KEP-5284).
func (s *Server) impersonation(next http.Handler) http.Handler {
	acting := impersonation.WithConstrainedImpersonation(next, s.authz, serializer.NewCodecFactory(s.scheme()).WithoutConversion())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name := range r.Header {
			if strings.HasPrefix(name, "Impersonate-") {
				acting.ServeHTTP(w, r)
				return
			}
		}
		next.ServeHTTP(w, r) // as next to all do
	})
}
