package server

import (
	"net/http"
	"sync"
	"unicode/utf8"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// Bounds on what one response carries in Warning headers.
const (
	maxWarnings       = 4096 // bytes altogether
	maxWarningTrimmed = 256  // bytes each, once the whole is too long
)

// withWarnings collects the warnings that handlers have for the client into headers.
func (s *Server) withWarnings(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		askedOf(r).warnings.header = w.Header()
		next.ServeHTTP(w, r)
	})
}

// warnings is safe for concurrent use, as webhooks run in parallel.
type warnings struct {
	mu     sync.Mutex
	header http.Header
	seen   map[string]bool
	size   int
}

// AddWarning implements warning.Recorder.
func (w *warnings) AddWarning(agent, text string) {
	if text == "" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen[text] {
		return
	}
	if w.size+len(text) > maxWarnings {
		if len(text) > maxWarningTrimmed {
			text = cut(text, maxWarningTrimmed)
		}
		if w.size+len(text) > maxWarnings {
			return
		}
	}
	value, err := utilnet.NewWarningHeader(299, agent, text)
	if err != nil {
		return // not text that a header can carry
	}
	if w.seen == nil {
		w.seen = map[string]bool{}
	}
	w.seen[text] = true
	w.size += len(text)
	w.header.Add("Warning", value)
}

// cut shortens s to at most n bytes at a rune's boundary.
func cut(s string, n int) string {
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
