package handlers

import (
	"net/http/httptest"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/endpoints/request"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/registry"
)

// TestPortsOfOptions: admission sees all ports, also those of a list.
func TestPortsOfOptions(t *testing.T) {
	d := &endpoint{Endpoint: &registry.Endpoint{
		Kind: &api.Kind{Resource: "pods"}, Sub: &api.Subresource{Name: "portforward"},
	}}
	c := &connection{&call{exchange: exchange{endpoint: d,
		r: httptest.NewRequestWithContext(t.Context(), "GET", "/?ports=80,443&ports=8080", nil)}}}
	o, err := c.connectOptions()
	if err != nil {
		t.Fatal(err)
	}
	if got := o.(*corev1.PodPortForwardOptions).Ports; !slices.Equal(got, []int32{80, 443, 8080}) {
		t.Errorf("ports %v", got)
	}
}

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
		"/proxy//a":  {[]string{"pods", "p", "proxy", "", "a"}, "/a"},
	} {
		call := &connection{&call{exchange: exchange{
			r:    httptest.NewRequestWithContext(t.Context(), "GET", path, nil),
			info: &request.RequestInfo{Parts: c.parts},
		}}}
		if got := call.proxyPath(); got != c.want {
			t.Errorf("%s: %q, want %q", path, got, c.want)
		}
	}
}
