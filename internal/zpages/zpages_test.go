package zpages

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"sigs.k8s.io/yaml"
)

func program() *Program {
	started := time.Date(2026, 5, 1, 10, 0, 0, 5, time.UTC)
	return &Program{
		Name: "apiserver", Started: started, GoVersion: "go1.26", Version: "1.36.3", Emulation: "1.36",
		Paths: func() []string {
			return []string{"/", "/api", "/apis/apps/v1", "/healthz", "/healthz/ping", "/statusz", "/.well-known/x",
				"/openapi/v2"}
		},
		Flags: func() map[string]string { return map[string]string{"v": "2", "bind-address": "0.0.0.0"} },
		Now:   func() time.Time { return started.Add(25*time.Hour + 61*time.Second) },
		CBOR:  true,
		Refuse: func(w http.ResponseWriter, _ *http.Request, known []string) {
			http.Error(w, strings.Join(known, ", "), http.StatusNotAcceptable)
		},
	}
}

func get(page http.Handler, accept string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	page.ServeHTTP(w, r)
	return w
}

const warning = "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility " +
	"guarantees and is for debugging purposes only.\n"

func TestText(t *testing.T) {
	p := program()
	for name, c := range map[string]struct {
		page http.Handler
		want string
	}{
		"status": {p.Status(), "\napiserver statusz\n" + warning +
			"\nStarted# Fri May  1 10:00:00 UTC 2026\nUp# 25 hr 01 min 01 sec\n" +
			"Go version# go1.26\nBinary version# 1.36.3\nEmulation version# 1.36\nPaths# /healthz /statusz\n"},
		"flags": {p.CommandLine(), "\napiserver flagz\n" + warning + "bind-address#0.0.0.0\nv#2\n"},
	} {
		for _, accept := range []string{"", " ", "*/*", "text/plain", "text/html, text/*;q=0.5"} {
			w := get(c.page, accept)
			ok := false
			for _, between := range delimiters {
				ok = ok || w.Body.String() == strings.ReplaceAll(c.want, "#", between)
			}
			if !ok || w.Header().Get("Content-Type") != "text/plain; charset=utf-8" {
				t.Errorf("%s as %q: %q, %q", name, accept, w.Body, w.Header())
			}
		}
	}
	p.Emulation = ""
	if w := get(p.Status(), ""); !strings.Contains(w.Body.String(), "1.36.3\n\nPaths") {
		t.Errorf("without emulation: %q", w.Body)
	}
}

func TestObjects(t *testing.T) {
	const params = ";g=config.k8s.io;as=Statusz;v="
	for _, form := range []string{jsonForm, yamlForm, cborForm} {
		for version, warned := range map[string]bool{old: true, now: false} {
			w := get(program().Status(), form+params+version)
			var got map[string]any
			var err error
			switch form {
			case jsonForm:
				err = json.Unmarshal(w.Body.Bytes(), &got)
			case yamlForm:
				err = yaml.Unmarshal(w.Body.Bytes(), &got)
			default:
				err = direct.Unmarshal(w.Body.Bytes(), &got)
			}
			if err != nil || got["kind"] != "Statusz" || got["apiVersion"] != "config.k8s.io/"+version ||
				got["binaryVersion"] != "1.36.3" ||
				got["startTime"] != "2026-05-01T10:00:00Z" || got["metadata"].(map[string]any)["name"] != "apiserver" ||
				len(got["paths"].([]any)) != 2 {
				t.Errorf("%s %s: %v, %v", form, version, got, err)
			}
			if h := w.Header(); h.Get("Content-Type") != form+";g=config.k8s.io;v="+version+";as=Statusz" ||
				(h.Get("Warning") != "") != warned {
				t.Errorf("%s %s: %v", form, version, h)
			}
		}
	}
	w := get(program().CommandLine(), "application/json;v=v1beta1;g=config.k8s.io;as=Flagz")
	if got := w.Body.String(); !strings.Contains(got, `"flags":{"bind-address":"0.0.0.0","v":"2"}`) ||
		strings.Contains(got, "startTime") {
		t.Errorf("flags: %s", got)
	}
}

func TestRefused(t *testing.T) {
	p := program()
	for _, accept := range []string{
		"application/json", "application/xml", "text/plain;as=Statusz",
		"application/json;v=v1;g=config.k8s.io;as=Statusz",
		"application/json;v=v1beta1;g=config.k8s.io;as=Flagz",
		"application/json;v=v1beta1;g=config.k8s.io;as=Statusz;stream=watch",
	} {
		if w := get(p.Status(), accept); w.Code != http.StatusNotAcceptable ||
			w.Body.String() != "application/json, application/yaml, text/plain, application/cbor\n" {
			t.Errorf("%s: %d %s", accept, w.Code, w.Body)
		}
	}
	p.CBOR = false
	if w := get(p.Status(),
		"application/cbor;v=v1beta1;g=config.k8s.io;as=Statusz"); w.Code != http.StatusNotAcceptable {
		t.Errorf("CBOR: %d", w.Code)
	}
}
