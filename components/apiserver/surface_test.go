package apiserver_test

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// raw asks as no client library would.
func (f *fixture) raw(t *testing.T, method, path, contentType, body string) (code int, answer string,
	header http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "https://"+f.server.Addr().String()+path,
		strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer admin")
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	resp, text := f.answer(t, r)
	var status metav1.Status
	if err := json.Unmarshal([]byte(text), &status); err == nil && status.Kind == "Status" {
		return resp.StatusCode, status.Message, resp.Header
	}
	return resp.StatusCode, strings.TrimSpace(text), resp.Header
}

// answer sends a request over a connection of its own.
func (f *fixture) answer(t *testing.T, r *http.Request) (*http.Response, string) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(text)
}

// TestRefusedInUpstreamsWords holds the words in which requests are refused before, or instead of, being served.
func TestRefusedInUpstreamsWords(t *testing.T) {
	f := startCustom(t)
	const widgets = "/apis/example.com/v1/namespaces/default/widgets"
	for _, c := range []struct {
		method, path, contentType, body string
		code                            int
		message                         string
	}{
		{"GET", "/api/v1/namespaces/default/configmaps/%2e%2e", "", "", 400,
			`Name parameter invalid: "..": may not be '..'`},
		{"DELETE", "/api/v1/namespaces/default/configmaps/a%25b", "", "", 400,
			`Name parameter invalid: "a%b": may not contain '%'`},
		{"PUT", "/api/v1/namespaces/default/configmaps/..", "application/json", `{"metadata":{"name":"x"}}`, 400,
			"the name of the object (x) does not match the name on the URL (..)"},
		{"GET", "/api/v1/namespaces/default/namespaces", "", "", 404,
			"the server could not find the requested resource"},
		{"GET", "/api/v1/namespaces/default/namespaces/default2", "", "", 404,
			"the server could not find the requested resource"},
		{"GET", "/api/v1/namespaces?fieldSelector=zz=1&limit=1", "", "", 400, "field label not supported: zz"},
		{"GET", "/apis/events.k8s.io/v1/namespaces/default/events/none", "", "", 404,
			`events.events.k8s.io "none" not found`},
		{"GET", "/api/v1/namespaces/default/events/none", "", "", 404, `events "none" not found`},
		{"GET", "/apis/resource.k8s.io/v1/resourceslices?fieldSelector=zz=1", "", "", 400,
			"field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: zz"},
		{"POST", "/api/v1/namespaces/default/pods/none/portforward?ports=abc", "", "", 400,
			`cannot convert to []int32: strconv.ParseUint: parsing "abc": invalid syntax`},
		{"POST", widgets, "application/json", `{"apiVersion":"v1","kind":"Widget","metadata":{"name":"w"}}`, 400,
			"the API version in the data (v1) does not match the expected API version (example.com/v1)"},
		{"POST", widgets, "application/json", `{"kind":"Widget","metadata":{"name":"w"}}`, 400,
			"the API version in the data () does not match the expected API version (example.com/v1)"},
		{"POST", widgets, "application/json", `{"apiVersion":"example.com/v1","kind":"Foo","metadata":{"name":"w"}}`,
			422,
			`Foo.example.com "w" is invalid: kind: Invalid value: "Foo": must be Widget`},
		{"GET", "/apis/example.com/v1/nope", "", "", 404, "404 page not found"},
		{"GET", widgets + "/w/nope", "", "", 404, `widgets.example.com "w" not found`},
		{"POST", "/version", "", "", 405, "the server does not allow this method on the requested resource"},
	} {
		t.Run(fmt.Sprint(c.method, c.path, c.body), func(t *testing.T) {
			code, message, _ := f.raw(t, c.method, c.path, c.contentType, c.body)
			if code != c.code || message != c.message {
				t.Errorf("%d %s, want %d %s", code, message, c.code, c.message)
			}
		})
	}
}

// TestSurfaceOfCustomResources: lists tell of a continue token that there isn't, and discovery has an order of its own.
func TestSurfaceOfCustomResources(t *testing.T) {
	f := startCustom(t)
	if _, list, _ := f.raw(t, "GET", "/apis/example.com/v1/namespaces/default/widgets", "", ""); !strings.Contains(list,
		`"metadata":{"continue":"","resourceVersion":"`) {
		t.Errorf("list: %s", list)
	}
	_, resources, _ := f.raw(t, "GET", "/apis/example.com/v1", "", "")
	if want := `"verbs":["delete","deletecollection","get","list","patch","create","update","watch"]`; !strings.Contains(
		resources,
		want,
	) {
		t.Errorf("resources: %s", resources)
	}
	if status, scale := strings.Index(resources, "widgets/status"), strings.Index(resources,
		"widgets/scale"); status < 0 || scale < status {
		t.Errorf("subresources: %s", resources)
	}
}

// TestOrphanWarning tells those who delete a job what becomes of its pods, unless they have said it.
func TestOrphanWarning(t *testing.T) {
	f := start(t)
	const job = "/apis/batch/v1/namespaces/default/jobs/none"
	if _, _, header := f.raw(t, "DELETE", job, "", ""); !strings.Contains(header.Get("Warning"),
		"child pods are preserved by default") {
		t.Errorf("headers: %v", header)
	}
	if _, _, header := f.raw(t, "DELETE", job+"?propagationPolicy=Background", "", ""); header.Get("Warning") != "" {
		t.Errorf("headers: %v", header)
	}
}
