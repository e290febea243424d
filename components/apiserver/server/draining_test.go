package server

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestTurnAway: what comes while the server ends is to be asked of another.
func TestTurnAway(t *testing.T) {
	for grace, watch := range map[time.Duration]int{0: 200, time.Hour: 503} {
		s := serverOf(t, ok, func(c *Config) { c.Shutdown.WatchGrace = grace })
		serve := func(path, agent string) *httptest.ResponseRecorder {
			r := httptest.NewRequest(http.MethodGet, path, nil)
			r.Header.Set("User-Agent", agent)
			w := httptest.NewRecorder()
			s.Handler().ServeHTTP(w, r)
			return w
		}
		if w := serve("/api/v1/pods", "kubectl"); w.Code != http.StatusOK {
			t.Errorf("before: %d", w.Code)
		}
		close(s.closing)
		for _, c := range []struct {
			path, agent string
			code        int
		}{
			{"/api/v1/pods", "kubectl", 503}, {"/nothing", "kubectl", 503}, {"/api/v1/pods?watch=1", "kubectl", watch},
			{"/api/v1/namespaces/x/pods/p/log", "kubectl", 200},
			{"/api/v1/pods", "kube-apiserver/v1.36", 200}, {"/livez", "kube-probe", 200},
			{"/metrics", "prometheus", 200},
		} {
			w := serve(c.path, c.agent)
			if w.Code != c.code {
				t.Errorf("grace %v: %s of %s: %d, want %d", grace, c.path, c.agent, w.Code, c.code)
			}
			if c.code == 503 && (w.Header().Get("Retry-After") != "1" ||
				w.Header().Get("Content-Type") != "application/json" ||
				!strings.Contains(w.Body.String(),
					`"message":"apiserver is shutting down","reason":"ServiceUnavailable"`)) {
				t.Errorf("%s: %v, %s", c.path, w.Header(), w.Body)
			}
		}
	}
}
