package handlers

import (
	"net/http/httptest"
	"testing"

	"k8s.io/apiserver/pkg/endpoints/request"
)

// TestProxyPath: admission sees the path behind a proxy as it was asked for, with a slash at its end if there was one.
func TestProxyPath(t *testing.T) {
	for path, c := range map[string]struct {
		parts []string
		want  string
	}{
		"/proxy":     {[]string{"pods", "p", "proxy"}, ""},
		"/proxy/":    {[]string{"pods", "p", "proxy"}, "/"},
		"/proxy/a/b": {[]string{"pods", "p", "proxy", "a", "b"}, "/a/b"},
		"/proxy/a/":  {[]string{"pods", "p", "proxy", "a"}, "/a/"},
	} {
		call := &call{r: httptest.NewRequestWithContext(t.Context(), "GET", path, nil), info: &request.RequestInfo{Parts: c.parts}}
		if got := call.proxyPath(); got != c.want {
			t.Errorf("%s: %q, want %q", path, got, c.want)
		}
	}
}
