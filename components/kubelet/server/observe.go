package server

import (
	"net/http"
	"slices"
	"strings"
)

// observed counts and times requests.
func (s *Server) observed(next http.Handler) http.Handler {
	if s.Metrics == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := rootPath(r.URL.Path)
		began := s.Clock.Now()
		ended := s.Metrics.Request(method(r.Method), path, "readwrite", longRunning(path))
		defer func() { ended(s.Clock.Since(began)) }()
		next.ServeHTTP(w, r)
	})
}

// rootPath is what the metrics call the path of a request: its first part, or two of metrics; "other" is none of ours.
func rootPath(path string) string {
	parts := strings.SplitN(strings.TrimPrefix(path, "/"), "/", 3)
	root := parts[0]
	if root == "metrics" && len(parts) > 1 {
		if slices.Contains([]string{"cadvisor", "probes", "resource"}, parts[1]) {
			return "metrics/" + parts[1]
		}
		return "other"
	}
	if slices.Contains([]string{"attach", "checkpoint", "configz", "containerLogs", "debug", "exec", "flagz", "healthz",
		"logs", "metrics", "pods", "portForward", "run", "runningpods", "stats", "statusz"}, root) {
		return root
	}
	return "other"
}

func longRunning(path string) bool {
	return slices.Contains([]string{"exec", "attach", "portForward", "debug"}, path)
}

func method(method string) string {
	if _, known := verbs[method]; known {
		return method
	}
	return "unknown"
}
