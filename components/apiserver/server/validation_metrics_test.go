package server

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	endpointmetrics "k8s.io/apiserver/pkg/endpoints/metrics"
	"k8s.io/apiserver/pkg/endpoints/request"

	"quintet.dev/quintet/components/apiserver/handlers/answer"
)

// TestEndsAreCounted: requests that the server ends itself, those that it cuts off, and its own.
func TestEndsAreCounted(t *testing.T) {
	endpointmetrics.Register()
	s := serverOf(t, func(w http.ResponseWriter, r *http.Request) {
		switch infoOf(r).Name {
		case "slow":
			<-r.Context().Done()
			w.WriteHeader(http.StatusGatewayTimeout)
		case "cut":
			ok(w, r)
			panic(answer.Cut)
		case "bad":
			panic("a fault")
		case "odd": // as a webhook may say
			answer.Status(w, r, &metav1.Status{Code: 1000})
		}
	}, func(c *Config) {
		c.Authenticator = authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
			return &authenticator.Response{User: &user.DefaultInfo{Name: user.APIServerUser}}, true, nil
		})
	})
	kind := fmt.Sprint("ends", time.Now().UnixNano()) // metrics outlive a run of the test
	ends := "/apis/test.io/v1/" + kind + "/"
	ask(s, http.MethodGet, ends+"slow?timeout=1ms")
	for _, end := range []string{"bad", "odd", "cut"} {
		func() {
			defer func() {
				if p := recover(); p != http.ErrAbortHandler {
					t.Errorf("%s: the connection is not cut: %v", end, p)
				}
			}()
			s.Handler().ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, ends+end, nil))
		}()
	}
	text := ask(s, http.MethodGet, "/metrics").Body.String()
	for _, want := range []string{
		`apiserver_request_terminations_total{code="504",component="apiserver",group="test.io",resource="ends",scope="resource",subresource="",verb="GET",version="v1"} 1`,
		`apiserver_request_post_timeout_total{source="timeout-handler",status="ok"}`,
		`apiserver_request_aborts_total{group="test.io",resource="ends",scope="resource",subresource="",verb="GET",version="v1"} 1`,
		`apiserver_selfrequest_total{group="test.io",resource="ends",subresource="",verb="GET"} 4`,
	} {
		if want = strings.Replace(want, "ends", kind, 1); !strings.Contains(text, want) {
			t.Errorf("no %s", want)
		}
	}
}

// TestAbortsOfAnything: also those of requests that are for no resource, or for one that isn't served here, are
// counted.
func TestAbortsOfAnything(t *testing.T) {
	endpointmetrics.Register()
	kind := fmt.Sprint("others", time.Now().UnixNano())
	s := serverOf(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, func(c *Config) {
		c.Serves = func(*request.RequestInfo) bool { return false }
		c.Paths = NewMux()
		c.Paths.Exact("/cut", http.HandlerFunc(
			func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	})
	aborts := func(group, resource, scope, version string) string {
		prefix := fmt.Sprintf(
			`apiserver_request_aborts_total{group=%q,resource=%q,scope=%q,subresource="",verb="GET",version=%q} `,
			group,
			resource,
			scope,
			version,
		)
		for line := range strings.Lines(ask(s, http.MethodGet, "/metrics").Body.String()) {
			if n, ok := strings.CutPrefix(line, prefix); ok {
				return strings.TrimSpace(n)
			}
		}
		return "0"
	}
	before := aborts("", "", "", "")
	for _, path := range []string{"/cut", "/apis/test.io/v1/" + kind + "/a"} {
		func() {
			defer func() { _ = recover() }()
			ask(s, http.MethodGet, path)
		}()
	}
	if after := aborts("", "", "", ""); after == before {
		t.Errorf("of no resource: still %s", after)
	}
	if got := aborts("test.io", kind, "resource", "v1"); got != "1" {
		t.Errorf("of a resource that isn't served here: %s", got)
	}
}

// TestFiltersAreMeasured: each by what it takes until it passes a request on; one that doesn't isn't.
func TestFiltersAreMeasured(t *testing.T) {
	through := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if infoOf(r).Name == "refused" {
				w.WriteHeader(http.StatusTooManyRequests)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
	s := serverOf(t, ok, func(c *Config) { c.Fairness = through })
	ask(s, http.MethodGet, "/api/v1/namespaces/x/pods/served")
	ask(s, http.MethodGet, "/api/v1/namespaces/x/pods/refused")
	text := ask(s, http.MethodGet, "/metrics").Body.String()
	for name, n := range map[string]int{"authentication": 3, "audit": 3, "constrainedimpersonation": 3,
		"priorityandfairness": 2, "authorization": 2} {
		if want := fmt.Sprintf("apiserver_request_filter_duration_seconds_count{filter=%q} %d\n", name,
			n); !strings.Contains(text, want) {
			t.Errorf("no %s", want)
		}
	}
}

// TestWaysOfValidation: there is a series for each that was asked for, and one for all that don't exist.
func TestWaysOfValidation(t *testing.T) {
	s := serverOf(t, ok)
	const pods = "/api/v1/namespaces/x/pods"
	for _, query := range []string{"?fieldValidation=Strict", "?fieldValidation=strict",
		"?fieldValidation=Warn&fieldValidation=Warn"} {
		ask(s, http.MethodPost, pods+query)
	}
	text := ask(s, http.MethodGet, "/metrics").Body.String()
	for way, want := range map[string]bool{"Strict": true, "invalid": true, "": false, "strict": false, "Warn": false} {
		if got := strings.Contains(text,
			fmt.Sprintf("field_validation_request_duration_seconds_count{field_validation=%q} 0\n", way)); got != want {
			t.Errorf("%q: %v", way, got)
		}
	}
}

// TestRefusalsAreCounted: requests beyond the bound are terminated, and tell so.
func TestRefusalsAreCounted(t *testing.T) {
	endpointmetrics.Register()
	kind := fmt.Sprint("refusals", time.Now().UnixNano())
	var s *Server
	s = serverOf(t, func(w http.ResponseWriter, r *http.Request) {
		if infoOf(r).Name == "first" {
			if w := ask(s, http.MethodGet, "/apis/test.io/v1/"+kind+"/second"); w.Code != http.StatusTooManyRequests {
				t.Errorf("the second at a time: %d", w.Code)
			}
		}
	}, func(c *Config) { c.MaxInFlight = 1 })
	ask(s, http.MethodGet, "/apis/test.io/v1/"+kind+"/first")
	want := `apiserver_request_terminations_total{code="429",component="apiserver",group="test.io",resource="` + kind +
		`",scope="resource",subresource="",verb="GET",version="v1"} 1`
	if text := ask(s, http.MethodGet, "/metrics").Body.String(); !strings.Contains(text, want) {
		t.Errorf("no %s", want)
	}
}

func TestCountedPaths(t *testing.T) {
	const whole = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	for _, c := range []struct{ path, accept, name, by string }{
		{"/livez", "", "/livez", ""}, {"/livez/ping", "", "", ""}, {"/openapi/v2", "", "", ""},
		{"/version", "", "", ""},
		{"/openapi/v3", "", "openapi/v3", ""}, {"/openapi/v3/apis/apps/v1", "", "openapi/v3/", ""},
		{"/apis", whole, "apis", "apiserver"}, {"/api", whole + ";profile=nopeer", "api", "apiserver"},
		{"/apis", "application/json", "", ""}, {"/apis/apps", whole, "", ""},
	} {
		r := httptest.NewRequest(http.MethodGet, c.path, nil)
		r.Header.Set("Accept", c.accept)
		of, ok := pathOf(r)
		if ok != (c.name != "") || ok && of != (countedPath{name: c.name, component: c.by}) {
			t.Errorf("%s as %q: %v, %v", c.path, c.accept, of, ok)
		}
	}
}

// TestMadeUpMethods: what clients invent makes no metrics.
func TestMadeUpMethods(t *testing.T) {
	s := serverOf(t, ok, func(*Config) {})
	for _, method := range []string{http.MethodHead, "INVENTED", "MADE-UP"} {
		ask(s, method, "/livez")
	}
	text := ask(s, http.MethodGet, "/metrics").Body.String()
	for method, counted := range map[string]bool{"HEAD": false, "INVENTED": false, "MADE-UP": false, "GET": true,
		"other": true} {
		if strings.Contains(text, `subresource="/livez",verb="`+method+`"`) != counted {
			t.Errorf("%s is counted: %v", method, !counted)
		}
	}
}

// TestServiceLevel: neither watches nor dry runs count as what the server promises to be quick at.
func TestServiceLevel(t *testing.T) {
	s := serverOf(t, ok)
	for _, path := range []string{"pods", "pods?watch=1", "pods/a?dryRun=All"} {
		ask(s, http.MethodGet, "/api/v1/"+path)
	}
	text := ask(s, http.MethodGet, "/metrics").Body.String()
	for labels, want := range map[string]bool{
		`{component="apiserver",group="",resource="pods",scope="cluster",subresource="",verb="LIST"`:  true,
		`{component="apiserver",group="",resource="pods",scope="cluster",subresource="",verb="WATCH"`: false,
		`{component="apiserver",group="",resource="pods",scope="resource"`:                            false,
	} {
		if got := strings.Contains(text, "apiserver_request_sli_duration_seconds_count"+labels); got != want {
			t.Errorf("%s: counted %t", labels, got)
		}
	}
}
