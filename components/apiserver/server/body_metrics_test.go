package server

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestBodies: only what is read to its end is measured, announced or not, of requests that change something.
func TestBodies(t *testing.T) {
	s := serverOf(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("Read") {
		case "all":
			_, _ = io.Copy(io.Discard, r.Body)
		case "announced":
			_, _ = io.ReadFull(r.Body, make([]byte, r.ContentLength))
		case "some":
			_, _ = io.ReadFull(r.Body, make([]byte, 3))
		case "nothing":
			w.WriteHeader(http.StatusUnsupportedMediaType)
		}
	})
	const one = "/api/v1/namespaces/x/pods/p"
	for _, c := range []struct{ method, path, read, text string }{
		{"POST", "/api/v1/namespaces/x/pods", "all", "12345"},
		{"POST", "/api/v1/namespaces/x/pods", "announced", "1234567"},
		{"POST", "/api/v1/namespaces/x/pods", "nothing", ""},
		{"PUT", one, "some", "12345"}, {"PATCH", one, "nothing", "12345"},
		{"PATCH", "/apis/apps/v1/namespaces/x/deployments/d", "all", "1"},
		{"DELETE", one, "all", ""}, {"DELETE", "/api/v1/namespaces/x/pods", "all", "123"},
		{"POST", one + "/exec", "all", "12345"}, {"GET", one, "all", "12345"},
	} {
		var content io.Reader
		if c.text != "" {
			content = strings.NewReader(c.text)
		}
		r := httptest.NewRequest(c.method, c.path, content)
		if c.read == "all" && c.text != "" {
			r.ContentLength = -1
		}
		r.Header.Set("Read", c.read)
		s.Handler().ServeHTTP(httptest.NewRecorder(), r)
	}
	var got []string
	for line := range strings.Lines(ask(s, http.MethodGet, "/metrics").Body.String()) {
		if rest, ok := strings.CutPrefix(line, "apiserver_request_body_size_bytes_"); ok &&
			!strings.HasPrefix(rest, "bucket") {
			got = append(got, rest)
		}
	}
	const want = `sum{group="",resource="pods",verb="create"} 12
count{group="",resource="pods",verb="create"} 2
sum{group="",resource="pods",verb="delete"} 0
count{group="",resource="pods",verb="delete"} 1
sum{group="",resource="pods",verb="delete_collection"} 3
count{group="",resource="pods",verb="delete_collection"} 1
sum{group="apps",resource="deployments",verb="patch"} 1
count{group="apps",resource="deployments",verb="patch"} 1
`
	if strings.Join(got, "") != want {
		t.Errorf("got %s", got)
	}
}
