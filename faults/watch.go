package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// errCut is what the server's writes to a watch fail by, once that has ended.
var errCut = errors.New("watch is cut")

// watch disturbs the stream of a watch. The server is asked for JSON, in which events are lines.
func watch(f Fault, k Key, w http.ResponseWriter, r *http.Request, next http.Handler) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	r = r.Clone(ctx)
	r.Header.Set("Accept", asJSON(r.Header.Get("Accept")))
	r.Header.Del("Accept-Encoding")
	stream := &stream{ResponseWriter: w, fault: f, key: k, ctx: ctx, cancel: cancel}
	if f.Cut && f.After == 0 {
		panic(http.ErrAbortHandler)
	}
	stream.take(next, r)
	if stream.broken {
		panic(http.ErrAbortHandler)
	}
}

// take takes the events from next. A reverse proxy gives up by a panic when its writes fail, as they do after the end.
func (s *stream) take(next http.Handler, r *http.Request) {
	defer func() {
		if p := recover(); p != nil && (p != http.ErrAbortHandler || !s.ended) {
			panic(p)
		}
	}()
	next.ServeHTTP(s, r)
}

// asJSON asks for JSON instead of the other forms, with the same parameters (as=Table;...).
func asJSON(accept string) string {
	var out []string
	for part := range strings.SplitSeq(accept, ",") {
		_, parameters, _ := strings.Cut(part, ";")
		kept := "application/json"
		for p := range strings.SplitSeq(parameters, ";") {
			p = strings.TrimSpace(p)
			if strings.HasPrefix(p, "as=") || strings.HasPrefix(p, "v=") || strings.HasPrefix(p, "g=") {
				kept += ";" + p
			}
		}
		out = append(out, kept)
	}
	return strings.Join(out, ",")
}

// stream passes the events of a watch on until its fault strikes.
type stream struct {
	http.ResponseWriter
	fault  Fault
	key    Key
	ctx    context.Context
	cancel context.CancelFunc

	status  int
	partial []byte // of a line
	events  int    // passed on
	stalled bool   // has been
	ended   bool
	broken  bool // ended without a word
}

// WriteHeader implements http.ResponseWriter.
func (s *stream) WriteHeader(code int) {
	s.status = code
	s.ResponseWriter.WriteHeader(code)
}

// Unwrap lets http.ResponseController find what the server can do.
func (s *stream) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// Flush implements http.Flusher.
func (s *stream) Flush() { _ = http.NewResponseController(s.ResponseWriter).Flush() }

// Write implements io.Writer. It is called by one goroutine.
func (s *stream) Write(p []byte) (int, error) {
	if s.status != 0 && s.status != http.StatusOK {
		return s.ResponseWriter.Write(p) // an error is no stream
	}
	size := len(p)
	for {
		if s.ended {
			return 0, errCut
		}
		line, rest, whole := bytes.Cut(p, []byte{'\n'})
		s.partial = append(s.partial, line...)
		if !whole {
			return size, nil
		}
		event := append(s.partial, '\n')
		s.partial = nil
		if err := s.event(event); err != nil {
			return 0, err
		}
		p = rest
	}
}

// event passes on one event.
func (s *stream) event(line []byte) error {
	if s.events < s.fault.After {
		s.events++
		_, err := s.ResponseWriter.Write(line)
		if err == nil && s.events == s.fault.After && (s.fault.Cut || s.fault.Status != 0) {
			s.Flush()
			return s.end()
		}
		return err
	}
	s.events++
	if s.fault.Stall.Duration > 0 && !s.stalled {
		s.stalled = true
		s.Flush()
		if !wait(s.ctx, s.fault.Stall.Duration) {
			return s.ctx.Err()
		}
	}
	if s.fault.Duplicate {
		line = append(bytes.Clone(line), line...)
	}
	_, err := s.ResponseWriter.Write(line)
	return err
}

// end ends the watch, by an ERROR event if the fault has a status.
func (s *stream) end() error {
	s.ended = true
	defer s.cancel()
	if s.fault.Status == 0 {
		s.broken = true
		return errCut
	}
	of := status(s.fault, s.key)
	if s.fault.Status == http.StatusGone {
		of = expired()
	}
	of.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	line, err := json.Marshal(map[string]any{"type": "ERROR", "object": of})
	if err != nil {
		return err
	}
	_, _ = s.ResponseWriter.Write(append(line, '\n')) // it ends in any case
	s.Flush()
	return errCut
}
