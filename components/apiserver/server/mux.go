package server

import (
	"net/http"
	"slices"
	"strings"

	"quintet.dev/quintet/components/apiserver/handlers/answer"
)

// Mux maps the paths that are not resources. Unlike http.ServeMux it never redirects, and it can list its paths, as the
// index at "/" does. It is filled before the server runs.
type Mux struct {
	exact    map[string]http.Handler
	services map[string]bool // exact paths that may end in "/"
	prefixes []prefix        // longest first
}

type prefix struct {
	path    string
	handler http.Handler
}

// NewMux makes an empty Mux.
func NewMux() *Mux { return &Mux{exact: map[string]http.Handler{}, services: map[string]bool{}} }

// Exact serves one path; the last one given wins.
func (m *Mux) Exact(path string, h http.Handler) { m.exact[path] = h }

// Service serves one path, also with a "/" at its end.
func (m *Mux) Service(path string, h http.Handler) {
	m.Exact(path, h)
	m.services[path] = true
}

// Prefix serves all paths below path, which ends in "/", that no longer prefix and no exact path serves.
func (m *Mux) Prefix(path string, h http.Handler) {
	m.prefixes = append(m.prefixes, prefix{path, h})
	slices.SortStableFunc(m.prefixes, func(a, b prefix) int { return len(b.path) - len(a.path) })
}

// List returns all paths, sorted.
func (m *Mux) List() []string {
	out := make([]string, 0, len(m.exact)+len(m.prefixes))
	for path := range m.exact {
		out = append(out, path)
	}
	for _, p := range m.prefixes {
		if p.path != "/" {
			out = append(out, p.path)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (m *Mux) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	if h, ok := m.exact[path]; ok {
		h.ServeHTTP(w, r)
		return
	}
	if service, ok := strings.CutSuffix(path, "/"); ok && m.services[service] {
		m.exact[service].ServeHTTP(w, r)
		return
	}
	for _, p := range m.prefixes {
		if strings.HasPrefix(path, p.path) {
			p.handler.ServeHTTP(w, r)
			return
		}
	}
	answer.Unknown(w, r)
}

// handles lets libraries install what they serve.
type handles struct{ *Mux }

// Handle serves one path.
func (h handles) Handle(path string, handler http.Handler) { h.Exact(path, handler) }
