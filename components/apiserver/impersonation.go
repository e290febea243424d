package apiserver

import (
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/endpoints/filters/impersonation"

	"quintet.dev/quintet/components/apiserver/gates"
)

// impersonation lets users act as others
// (https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation), also only for some
// requests (KEP-5284) if that feature is on.
func (s *Server) impersonation(next http.Handler) http.Handler {
	act := impersonation.WithImpersonation
	if s.gates.On(gates.ConstrainedImpersonation) {
		act = impersonation.WithConstrainedImpersonation
	}
	acting := act(next, s.authz, serializer.NewCodecFactory(s.scheme()).WithoutConversion())
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

// impersonationStep is what upstream's metrics call it.
func (s *Server) impersonationStep() string {
	if s.gates.On(gates.ConstrainedImpersonation) {
		return "constrainedimpersonation"
	}
	return "impersonation"
}
