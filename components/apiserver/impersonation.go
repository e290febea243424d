package apiserver

import (
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/filters/impersonation"

	"quintet.dev/quintet/components/apiserver/gates"
	"quintet.dev/quintet/components/apiserver/server"
)

// newImpersonation lets users act as others
// (https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation), also only for some
// requests (KEP-5284) if that feature is on.
func newImpersonation(b *base, by authorizer.Authorizer) server.Impersonation {
	act, name := impersonation.WithImpersonation, "impersonation"
	if b.gates.On(gates.ConstrainedImpersonation) {
		act, name = impersonation.WithConstrainedImpersonation, "constrainedimpersonation"
	}
	return server.Impersonation{Name: name, Filter: func(next http.Handler) http.Handler {
		plain := serializer.NewCodecFactory(b.scheme()).WithoutConversion()
		return onlyActing(act(next, by, plain), next)
	}}
}

// onlyActing passes requests that impersonate no other user straight on, as next to all are.
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
