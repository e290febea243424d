package server

import (
	"errors"
	"net/http"
	"slices"

	"quintet.dev/quintet/internal/health"
)

// installHealth serves /livez, /readyz and /healthz, each whole and by the check
// (https://kubernetes.io/docs/reference/using-api/health-checks/).
func (s *Server) installHealth() {
	live := append([]health.Check{health.Ping()}, s.config.Live...)
	shutdown := health.Check{Name: "shutdown", Probe: func(*http.Request) error {
		if s.stopping.Load() {
			return errors.New("process is shutting down")
		}
		return nil
	}}
	ready := slices.Concat([]health.Check{health.Ping()}, s.config.Ready, []health.Check{shutdown})
	s.installChecks("livez", live)
	s.installChecks("readyz", ready)
	s.installChecks("healthz", append([]health.Check{health.Ping()}, s.config.Health...))
}

func (s *Server) installChecks(name string, checks []health.Check) {
	for path, h := range health.Handlers(name, checks...) {
		s.config.Paths.Exact(path, h)
	}
}
