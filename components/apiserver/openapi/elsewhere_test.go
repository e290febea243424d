package openapi

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// source is a server that has said these things.
type source struct {
	version string
	v2      *Document
	v3      map[string]string
}

func (s *source) GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: "zoo.io", Version: s.version}
}
func (s *source) DocumentV2(context.Context) *Document      { return s.v2 }
func (s *source) PathsV3(context.Context) map[string]string { return s.v3 }
func (s *source) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fmt.Fprint(w, "from ", s.version, ": ", r.URL)
}

func told(hash, version, description string) *Document {
	return &Document{Hash: hash, Body: fmt.Appendf(nil, `{"swagger":"2.0","info":{"title":"zoo","version":"1"},
		"paths":{"/apis/zoo.io/%s/things":{"get":{"responses":{"200":{"description":"OK","schema":{"$ref":"#/definitions/io.zoo.Thing"}}}}}},
		"definitions":{"io.zoo.Thing":{"type":"object","description":%q}}}`, version, description)}
}

func TestElsewhere(t *testing.T) {
	s := New("v1.36.0", Form{})
	old := &source{version: "v1", v2: told("A", "v1", "An old thing.")}
	broken := &source{version: "v3", v2: &Document{Hash: "B", Body: []byte("{")}}
	s.SetElsewhere([]Source{
		old, &source{version: "v2", v2: told("C", "v2", "A new thing."),
			v3: map[string]string{"apis/zoo.io/v2": "/openapi/v3/apis/zoo.io/v2?hash=X"}}, broken,
		&source{version: "v4"},
	})
	ask := func(path string, header ...string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w
	}
	first := ask("/openapi/v2")
	for _, want := range []string{"An old thing.", "A new thing.", "io.zoo.Thing_v2", "/apis/zoo.io/v1/things",
		"/apis/zoo.io/v2/things"} {
		if !strings.Contains(first.Body.String(), want) {
			t.Errorf("v2 lacks %q: %s", want, first.Body)
		}
	}
	if again := ask("/openapi/v2", "If-None-Match", first.Header().Get("ETag")); again.Code != http.StatusNotModified {
		t.Errorf("unchanged: %d", again.Code)
	}
	index := ask("/openapi/v3").Body.String()
	for _, want := range []string{`"/openapi/v3/apis/zoo.io/v2?hash=X"`, `"/openapi/v3/apis/zoo.io/v1?hash=`} {
		if !strings.Contains(index, want) {
			t.Errorf("v3 lacks %s: %s", want, index)
		}
	}
	if strings.Contains(index, "zoo.io/v4") {
		t.Errorf("v3 has what nobody documents: %s", index)
	}
	if w := ask("/openapi/v3/apis/zoo.io/v2?hash=X"); w.Body.String() != "from v2: /openapi/v3/apis/zoo.io/v2?hash=X" {
		t.Errorf("passed on: %s", w.Body)
	}
	if w := ask("/openapi/v3/apis/zoo.io/v1"); !strings.Contains(w.Body.String(), `"openapi":"3.0.0"`) ||
		!strings.Contains(w.Body.String(), "An old thing.") {
		t.Errorf("converted: %s", w.Body)
	}
	if w := ask("/openapi/v3/apis/zoo.io/v1?hash=another"); w.Code != http.StatusMovedPermanently ||
		!strings.HasPrefix(w.Header().Get("Location"), "/openapi/v3/apis/zoo.io/v1?hash=") {
		t.Errorf("with another hash: %d %v", w.Code, w.Header())
	}
	for _, path := range []string{"/openapi/v3/apis/zoo.io/v4", "/openapi/v3/apis/none.io/v1"} {
		if w := ask(path); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	old.v2 = told("D", "v1", "An older thing.")
	changed := ask("/openapi/v2", "If-None-Match", first.Header().Get("ETag"))
	if changed.Code != http.StatusOK || !strings.Contains(changed.Body.String(), "An older thing.") {
		t.Errorf("changed: %d %s", changed.Code, changed.Body)
	}
	if w := ask("/openapi/v3/apis/zoo.io/v1"); !strings.Contains(w.Body.String(), "An older thing.") {
		t.Errorf("changed, converted: %s", w.Body)
	}
}
