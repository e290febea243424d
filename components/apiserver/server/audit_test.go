package server

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/apiserver/pkg/endpoints/request"

	"quintet.dev/quintet/components/apiserver/handlers/answer"
)

// witness is an Audit that notes how requests end.
type witness struct{ ends []string }

func (*witness) Begin(next http.Handler) http.Handler     { return next }
func (*witness) Refused(answer http.Handler) http.Handler { return answer }
func (w *witness) Record(next http.Handler, _ request.LongRunningRequestCheck) http.Handler {
	return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			w.ends = append(w.ends, fmt.Sprint(p))
			if p != nil {
				panic(p)
			}
		}()
		next.ServeHTTP(out, r)
	})
}

// TestAnswersThatBreakOff: a client that is gone makes the audit no panic of what it has got done, but its connection
// is cut. What a proxy breaks off is one, as with upstream.
func TestAnswersThatBreakOff(t *testing.T) {
	for name, test := range map[string]struct {
		with any
		end  string
	}{
		"an answer": {answer.Cut, "<nil>"},
		"a proxy's": {http.ErrAbortHandler, http.ErrAbortHandler.Error()},
	} {
		w := &witness{}
		s := serverOf(t, func(w http.ResponseWriter, r *http.Request) {
			ok(w, r)
			panic(test.with)
		}, func(c *Config) { c.Audit = w })
		func() {
			defer func() {
				if p := recover(); p != http.ErrAbortHandler {
					t.Errorf("%s: the connection is not cut: %v", name, p)
				}
			}()
			s.Handler().ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/api/v1/pods", nil))
		}()
		if len(w.ends) != 1 || w.ends[0] != test.end {
			t.Errorf("%s: written down as %q", name, w.ends)
		}
	}
}

// TestAuditedConnections: who serves an audited request can take its connection over, and flush.
func TestAuditedConnections(t *testing.T) {
	s := serverOf(t, func(w http.ResponseWriter, _ *http.Request) {
		if _, ok := w.(http.Flusher); !ok {
			t.Error("nothing can be flushed")
		}
		hijacker, ok := w.(http.Hijacker)
		if !ok {
			t.Error("the connection can't be taken over")
			return
		}
		conn, _, err := hijacker.Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
	}, func(c *Config) { c.Audit = &witness{} })
	server := httptest.NewServer(s.Handler())
	defer server.Close()
	response, err := http.Get(server.URL + "/api/v1/namespaces/default/pods/p/exec")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, err := io.ReadAll(response.Body); string(body) != "hi" {
		t.Errorf("got %q, %v", body, err)
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}
