package apiserver

import (
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/endpoints/filters/impersonation"

	"quintet.dev/quintet/components/apiserver/gates"
	"quintet.dev/quintet/components/apiserver/server"
)

// impersonation lets users act as others
// (https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation), also only for some
// requests (KEP-5284) if that feature is on.
func (s *Server) impersonation() server.Impersonation {
	act, name := impersonation.WithImpersonation, "impersonation"
	if s.gates.On(gates.ConstrainedImpersonation) {
		act, name = impersonation.WithConstrainedImpersonation, "constrainedimpersonation"
	}
	return server.Impersonation{Name: name, Filter: func(next http.Handler) http.Handler {
		return onlyActing(act(next, s.authz, serializer.NewCodecFactory(s.scheme()).WithoutConversion()), next)
	}}
}

// onlyActing passes requests of who doesn't act as another straight on, as next to all are.
func onlyActing(acting, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name := range r.Header {
			if strings.HasPrefix(name, "Impersonate-") {
				acting.ServeHTTP(w, r)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}
