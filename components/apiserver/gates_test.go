package apiserver_test

import (
	"net/http"
	"strings"
	"testing"

	"quintet.dev/quintet/components/apiserver"
)

func gated(set map[string]bool) func(*apiserver.Config) {
	return func(c *apiserver.Config) { c.FeatureGates = set }
}

// with asks with headers, given in pairs; the body is read, and decompressed by nobody.
func (f *fixture) with(t *testing.T, method, path, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "https://"+f.server.Addr().String()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer admin")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return f.answer(t, r)
}

func TestGateAPIResponseCompression(t *testing.T) {
	for _, on := range []bool{true, false} {
		f := start(t, gated(map[string]bool{"APIResponseCompression": on}))
		large := `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"large"},"data":{"a":"` + strings.Repeat("a", 200<<10) + `"}}`
		if resp, text := f.with(t, "POST", "/api/v1/namespaces/default/configmaps", large, "Content-Type", "application/json"); resp.StatusCode != 201 {
			t.Fatalf("%s", text)
		}
		for _, path := range []string{"/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default/configmaps/large"} {
			resp, _ := f.with(t, "GET", path, "", "Accept-Encoding", "gzip")
			if zipped := resp.Header.Get("Content-Encoding") == "gzip"; zipped != on {
				t.Errorf("%v: GET %s: compressed %v", on, path, zipped)
			}
		}
	}
}
