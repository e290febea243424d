package server

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	"quintet.dev/quintet/internal/zpages"
)

// TestPagesAreCounted: those that tell of the program are counted by their name, as objects by their version.
func TestPagesAreCounted(t *testing.T) {
	s := serverOf(t, ok, func(c *Config) {
		c.Paths = NewMux()
		p := zpages.New("apiserver", time.Now, func() map[string]string { return nil })
		p.Paths = c.Paths.List
		c.Paths.Exact(zpages.StatusPath, p.Status())
		c.Paths.Exact(zpages.FlagsPath, p.CommandLine())
	})
	for _, c := range []struct{ path, accept string }{
		{"/statusz", ""}, {"/flagz", "text/plain"}, {"/flagz", "text/html"},
		{"/statusz", "text/html,application/json;as=Statusz;v=v1beta1;g=config.k8s.io"},
	} {
		r := httptest.NewRequest(http.MethodGet, c.path, nil)
		r.Header.Set("Accept", c.accept)
		s.Handler().ServeHTTP(httptest.NewRecorder(), r)
	}
	text := ask(s, http.MethodGet, "/metrics").Body.String()
	for _, series := range []string{
		`apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="statusz",scope="",subresource="",verb="GET",version=""} 1`,
		`apiserver_request_total{code="200",component="apiserver",dry_run="",group="config.k8s.io",resource="statusz",scope="",subresource="",verb="GET",version="v1beta1"} 1`,
		`apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="flagz",scope="",subresource="",verb="GET",version=""} 1`,
		`apiserver_request_total{code="406",component="apiserver",dry_run="",group="",resource="flagz",scope="",subresource="",verb="GET",version=""} 1`,
		`apiserver_response_sizes_count{component="apiserver",group="",resource="statusz",scope="",subresource="",verb="GET",version=""} 1`,
	} {
		if !strings.Contains(text, series) {
			t.Errorf("no %s", series)
		}
	}
}

// TestFilterTimes: who isn't known is passed on to an answer, who may not isn't.
func TestFilterTimes(t *testing.T) {
	s := serverOf(t, ok, func(c *Config) {
		c.Authenticator = authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
			return &authenticator.Response{User: &user.DefaultInfo{Name: "alice"}},
				!strings.Contains(r.URL.Path, "nobody"), nil
		})
	})
	// of which the last is forbidden
	for _, path := range []string{"/api/v1/namespaces/x/pods/p", "/api/v1/namespaces/x/pods/nobody",
		"/api/v1/namespaces/x/secrets/s"} {
		ask(s, http.MethodGet, path)
	}
	text := ask(s, http.MethodGet, "/metrics").Body.String() // and a fourth
	for filter, n := range map[string]string{"authentication": "4", "authorization": "2"} {
		if !strings.Contains(text, `apiserver_request_filter_duration_seconds_count{filter="`+filter+`"} `+n+"\n") {
			t.Errorf("%s: not %s times", filter, n)
		}
	}
}
