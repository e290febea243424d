package openapi

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// TestDocumentsOutliveChanges: a change of one group doesn't cost the others their documents, which take a while to
// make.
func TestDocumentsOutliveChanges(t *testing.T) {
	s := New("v1.36.0", Form{})
	table := kinds.Table(api.Deps{})
	s.Set(table, nil)
	paths := []string{"/openapi/v2", "/openapi/v3/version", "/openapi/v3/apis/apps", "/openapi/v3/apis/apps/v1",
		"/openapi/v3/apis/batch/v1", "/openapi/v3/apis/policy/v1"}
	for _, path := range paths {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != http.StatusOK {
			t.Fatalf("%s: %d", path, w.Code)
		}
	}
	made := func() map[string]*document {
		out := map[string]*document{}
		s.made.Range(func(key, value any) bool {
			out[key.(documentKey).path] = value.(*document)
			return true
		})
		return out
	}
	before := made()
	if len(before) != len(paths) {
		t.Fatalf("%d documents", len(before))
	}
	s.Set(slices.DeleteFunc(table,
		func(k *api.Kind) bool { return k.Resource == "cronjobs" || k.Resource == "poddisruptionbudgets" }), nil)
	after := made()
	for path, was := range before {
		stays := path == "version" || path == "apis/apps" || path == "apis/apps/v1"
		if now := after[path]; stays && now != was || !stays && now != nil {
			t.Errorf("%s: %p, before %p", path, now, was)
		}
	}
}

func TestTakesGzip(t *testing.T) {
	for accepted, want := range map[string]bool{
		"": false, "gzip": true, " GZIP ": true, "deflate, gzip;q=0.5": true, "gzip;foo": true, "br": false, "*": false,
		"x-gzip":   false,
		"gzip;q=0": false, "gzip; q=0.0": false, "gzip;q=x": false, "gzip, gzip;q=0": false,
	} {
		if got := takesGzip(accepted); got != want {
			t.Errorf("%q: %v", accepted, got)
		}
	}
}

// TestNoMediaType: an Accept that names none is refused for v2 only.
func TestNoMediaType(t *testing.T) {
	server := serve(t)
	for path, want := range map[string]int{"/openapi/v2": http.StatusNotAcceptable,
		"/openapi/v3/version": http.StatusOK} {
		if resp, body := get(t, server.URL+path, "Accept", "x"); resp.StatusCode != want || len(body) > 0 {
			t.Errorf("%s: %s, %s", path, resp.Status, body)
		}
	}
}
