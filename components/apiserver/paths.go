package apiserver

import (
	"net/http"
	"slices"
	"strings"

	"quintet.dev/quintet/components/apiserver/server"
	"quintet.dev/quintet/components/apiserver/tokens"
)

// newPaths is everything that is not a resource.
func newPaths(b *base, a access, c *catalog, f *priorityAndFairness) *server.Mux {
	m := server.NewMux()
	listed := func() []string {
		paths := append(slices.DeleteFunc(m.List(), unlisted), c.discovery.Paths()...)
		slices.Sort(paths)
		return slices.Compact(paths)
	}
	m.Service("/version", onlyGet("application/json", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, version(b.config))
	}))
	addTo(m, b.config.Profiling.Begin())
	addPages(m, b, listed)
	f.install(m)
	if b.config.LogFiles {
		addLogs(m)
	}
	addIssuer(m, a.tokens)
	addDiscovery(m, c)
	index := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, map[string][]string{"paths": listed()})
	})
	m.Exact("/", index)
	m.Exact("/index.html", index)
	return m
}

// unlisted are the paths of which the list doesn't tell.
func unlisted(path string) bool {
	return path == "/" || path == "/index.html" || path == "/api/" || strings.HasPrefix(path, "/debug/")
}

// addDiscovery tells what is served.
func addDiscovery(m *server.Mux, c *catalog) {
	d, o := c.discovery, c.openapi
	m.Exact("/api", d)
	m.Exact("/apis", d)
	m.Prefix("/api/", d)
	m.Prefix("/apis/", d)
	m.Exact("/openapi/v2", o)
	m.Exact("/openapi/v3", o)
	m.Prefix("/openapi/v3/", o)
}

// addIssuer lets others verify service account tokens, if the issuer is one that can be found by its URL.
func addIssuer(m *server.Mux, t *accountTokens) {
	documents, err := t.Discovery()
	if err != nil {
		return
	}
	m.Service(tokens.ConfigurationPath, onlyGet("application/json", documents.ServeConfiguration))
	m.Service(tokens.KeysPath, onlyGet("application/jwk-set+json", documents.ServeKeys))
}
