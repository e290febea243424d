package server

import (
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/endpoints/request"

	"quintet.dev/quintet/components/apiserver/codec"
	"quintet.dev/quintet/components/apiserver/handlers/answer"
	"quintet.dev/quintet/components/apiserver/handlers/negotiate"
)

// rejectDraining rejects requests on connections that were open when the server stopped accepting new ones, so that the
// client retries on another server. Open watches are ended separately; with a grace period, new ones must not extend
// it.
func (s *Server) rejectDraining(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-s.closing:
			info := infoOf(r)
			watches := info.Verb == "watch" && s.config.Shutdown.WatchGrace > 0
			if (watches || !LongRunning(r, info)) && !servedToTheEnd(r) {
				w.Header().Set("Retry-After", "1")
				w.Header().Set("X-Content-Type-Options", "nosniff")
				answer.ErrorIn(w, r, apierrors.NewServiceUnavailable("apiserver is shutting down"),
					negotiate.Offer{Media: []codec.MediaType{codec.JSON}})
				return
			}
		default:
		}
		next.ServeHTTP(w, r)
	})
}

// servedToTheEnd tells of requests that are answered for as long as the server runs: probes and scrapes, and the
// requests of API servers, this one included.
func servedToTheEnd(r *http.Request) bool {
	if _, within := request.UserFrom(r.Context()); within || strings.HasPrefix(r.UserAgent(), "kube-apiserver/") {
		return true
	}
	return slices.ContainsFunc([]string{"/readyz", "/livez", "/healthz", "/metrics"},
		func(prefix string) bool { return strings.HasPrefix(r.URL.Path, prefix) })
}
