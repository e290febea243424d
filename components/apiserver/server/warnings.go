package server

import (
	"net/http"
	"slices"
	"sync"
	"unicode/utf8"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// Bounds on what one response carries in Warning headers, in characters.
const (
	maxWarnings       = 4096 // altogether, before they are shortened
	maxWarningTrimmed = 256  // each, from then on
)

// withWarnings collects the warnings that handlers have for the client into headers.
func (s *Server) withWarnings(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requestStateOf(r).warnings.header = w.Header()
		next.ServeHTTP(w, r)
	})
}

// warnings is safe for concurrent use, as webhooks run in parallel.
type warnings struct {
	mu     sync.Mutex
	header http.Header
	told   []told
	size   int  // of what the headers say
	tight  bool // all are shortened, as they were too long together
}

type told struct{ agent, text string }

// AddWarning implements warning.Recorder.
func (w *warnings) AddWarning(agent, text string) {
	if text == "" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	full := w.tight && w.size >= maxWarnings
	if full || slices.ContainsFunc(w.told, func(t told) bool { return t.text == text }) {
		return
	}
	w.told = append(w.told, told{agent, text})
	if _, err := utilnet.NewWarningHeader(299, agent, text); err == nil && !w.tight &&
		w.size+utf8.RuneCountInString(text) > maxWarnings {
		w.tight, w.size = true, 0
		w.header.Del("Warning")
		for _, t := range w.told {
			w.add(t)
		}
		return
	}
	w.add(told{agent, text})
}

// add leaves out what a header can't carry.
func (w *warnings) add(t told) {
	if w.tight {
		t.text = cut(t.text, maxWarningTrimmed)
	}
	if value, err := utilnet.NewWarningHeader(299, t.agent, t.text); err == nil {
		w.size += utf8.RuneCountInString(t.text)
		w.header.Add("Warning", value)
	}
}

// cut shortens s to at most n characters.
func cut(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}
