package server

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"quintet.dev/quintet/components/apiserver/handlers/answer"
)

// TestEarlyRequests: what isn't there while the server doesn't know all that it serves may be there in a moment; what
// counts is when the request began.
func TestEarlyRequests(t *testing.T) {
	var installed atomic.Bool
	s := serverOf(t, func(w http.ResponseWriter, r *http.Request) {
		installed.Store(true)
		answer.Unknown(w, r)
	}, func(c *Config) { c.Installed = installed.Load })
	// of which the last installs all
	for _, path := range []string{"/nothing", "//api/v1/pods", "/apis/example.com/v1/widgets"} {
		w := ask(s, http.MethodGet, path)
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "5" ||
			!strings.Contains(w.Body.String(),
				`"the request has been made before all known HTTP paths have been installed, please try again"`) {
			t.Errorf("%s, early: %d, %v, %s", path, w.Code, w.Header(), w.Body)
		}
	}
	for _, path := range []string{"/nothing", "//api/v1/pods", "/apis/example.com/v1/widgets"} {
		if w := ask(s, http.MethodGet, path); w.Code != http.StatusNotFound ||
			w.Body.String() != "404 page not found\n" {
			t.Errorf("%s, then: %d, %s", path, w.Code, w.Body)
		}
	}
}
