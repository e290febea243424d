package server

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	endpointmetrics "k8s.io/apiserver/pkg/endpoints/metrics"
	"k8s.io/apiserver/pkg/endpoints/request"
	flowmetrics "k8s.io/apiserver/pkg/util/flowcontrol/metrics"
)

// TestOnlyWhatIsServedIsCounted: who is refused is counted only where there are too many, and never timed.
func TestOnlyWhatIsServedIsCounted(t *testing.T) {
	s := serverOf(t, ok, func(c *Config) {
		c.Authenticator = authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
			return &authenticator.Response{User: &user.DefaultInfo{Name: "alice"}},
				!strings.Contains(r.URL.Path, "nobody"), nil
		})
		c.Fairness = func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.Contains(r.URL.Path, "crowd") {
					w.WriteHeader(http.StatusTooManyRequests)
					return
				}
				next.ServeHTTP(w, r)
			})
		}
	})
	const api = "/api/v1/namespaces/x/"
	for path, code := range map[string]int{
		api + "pods/p": 200, api + "pods/nobody": 401, api + "secrets/s": 403, api + "secrets/s?watch=1": 403,
		api + "pods/crowd": 429, "/crowd": 429,
	} {
		if w := ask(s, http.MethodGet, path); w.Code != code {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	text := ask(s, http.MethodGet, "/metrics").Body.String()
	for series, want := range map[string]bool{
		`apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="",verb="GET",version="v1"} 1`:       true,
		`apiserver_request_total{code="429",component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="",verb="GET",version="v1"} 1`:       true,
		`apiserver_request_total{code="429",component="apiserver",dry_run="",group="",resource="",scope="",subresource="",verb="GET",version=""} 1`:                     true,
		`apiserver_request_duration_seconds_count{component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="",verb="GET",version="v1"} 1`: true,
		`apiserver_request_total{code="401"`: false, `apiserver_request_total{code="403"`: false,
		`resource="secrets",scope="resource",subresource="",verb="GET"`: false,
		`apiserver_longrunning_requests{`:                               false,
	} {
		if strings.Contains(text, series) != want {
			t.Errorf("%s: want %v", series, want)
		}
	}
}

// hijackable is a response whose connection can be taken.
type hijackable struct{ *httptest.ResponseRecorder }

func (hijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, _ := net.Pipe()
	return conn, nil, nil
}

// TestVerbsOfMetrics are those of the method, but for what connects, watches and applies.
func TestVerbsOfMetrics(t *testing.T) {
	s := serverOf(t, func(w http.ResponseWriter, r *http.Request) {
		if infoOf(r).Subresource == "exec" {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_ = conn.Close()
			return
		}
		ok(w, r)
	})
	const pods = "/api/v1/namespaces/x/pods"
	for _, c := range []struct{ method, path, media string }{
		{"GET", pods + "/p/log", ""}, {"POST", pods + "/p/exec", ""}, {"GET", pods + "/p/proxy", ""},
		{"DELETE", pods, ""}, {"PATCH", pods + "/p", "application/apply-patch+yaml"},
	} {
		r := httptest.NewRequest(c.method, c.path, nil)
		r.Header.Set("Content-Type", c.media)
		s.Handler().ServeHTTP(hijackable{httptest.NewRecorder()}, r)
	}
	text := ask(s, http.MethodGet, "/metrics").Body.String()
	labels := func(scope, sub, verb string) string {
		return fmt.Sprintf(`resource="pods",scope=%q,subresource=%q,verb=%q,version="v1"} `, scope, sub, verb)
	}
	for series, want := range map[string]bool{
		`code="200",component="apiserver",dry_run="",group="",` + labels("resource", "log", "CONNECT") + "1": true,
		`code="0",component="apiserver",dry_run="",group="",` + labels("resource", "exec", "CONNECT") + "1":  true,
		`code="200",component="apiserver",dry_run="",group="",` + labels("namespace", "", "DELETE") + "1":    true,
		`code="200",component="apiserver",dry_run="",group="",` + labels("resource", "", "APPLY") + "1":      true,
		`apiserver_response_sizes_count{component="apiserver",group="",` +
			labels("resource", "log", "CONNECT"): false,
		`apiserver_response_sizes_count{component="apiserver",group="",` +
			labels("resource", "proxy", "CONNECT"): false,
		`apiserver_longrunning_requests{component="apiserver",group="",` + labels("resource", "exec", "CONNECT"): true,
	} {
		if strings.Contains(text, series) != want {
			t.Errorf("%s: want %v", series, want)
		}
	}
}

// TestWhatHasNoRouteIsNotCounted: methods that a resource doesn't know, forms that no kind but custom ones looks at
// itself, and what panics.
func TestWhatHasNoRouteIsNotCounted(t *testing.T) {
	s := serverOf(t, func(w http.ResponseWriter, r *http.Request) {
		code, _ := strconv.Atoi(r.Header.Get("Code"))
		w.WriteHeader(code)
		if r.Header.Get("Fault") != "" {
			panic(http.ErrAbortHandler)
		}
	}, func(c *Config) {
		c.Defined = func(info *request.RequestInfo) bool { return strings.HasPrefix(info.Resource, "custom") }
	})
	for i, c := range []struct {
		method, resource, accept, fault string
		code                            int
		counted                         bool
	}{
		{"PUT", "pods", "", "", 405, false}, {"PUT", "customs", "", "", 405, false},
		{"WATCH", "statuses", "", "", 405, true},
		{"PATCH", "pods", "", "", 415, false}, {"PATCH", "customs", "", "", 415, true},
		{"POST", "pods", "", "", 415, true},
		{"GET", "pods", "text/html", "", 406, false}, {"GET", "customs", "text/html", "", 406, true},
		{"GET", "pods", "text/html, application/json;as=Chair", "", 406, true},
		{"GET", "pods", "", "", 200, true}, {"GET", "pods", "", "panics", 200, false},
	} {
		resource := fmt.Sprint(c.resource, i)
		r := httptest.NewRequest(c.method, "/apis/x/v1/"+resource+"/a", nil)
		if c.method == "WATCH" {
			r = httptest.NewRequest(http.MethodGet, "/apis/x/v1/"+resource+"?watch=1", nil)
		}
		r.Header.Set("Accept", c.accept)
		r.Header.Set("Code", strconv.Itoa(c.code))
		r.Header.Set("Fault", c.fault)
		func() {
			defer func() { _ = recover() }()
			s.Handler().ServeHTTP(httptest.NewRecorder(), r)
		}()
		text := ask(s, http.MethodGet, "/metrics").Body.String()
		if got := strings.Contains(text,
			fmt.Sprintf(`apiserver_request_total{code="%d",component="apiserver",dry_run="",group="x",resource=%q`,
				c.code, resource)); got != c.counted {
			t.Errorf("%+v: counted: %t", c, got)
		}
	}
}

// TestWatchesOfCustomResourcesAreNotSized, as those of upstream aren't.
func TestWatchesOfCustomResourcesAreNotSized(t *testing.T) {
	s := serverOf(t, ok, func(c *Config) {
		c.Defined = func(info *request.RequestInfo) bool { return info.Resource == "customs" }
	})
	for _, path := range []string{"/apis/x/v1/customs?watch=1", "/apis/x/v1/customs", "/api/v1/pods?watch=1"} {
		ask(s, http.MethodGet, path)
	}
	text := ask(s, http.MethodGet, "/metrics").Body.String()
	for series, want := range map[string]bool{
		`resource="customs",scope="cluster",subresource="",verb="WATCH"`: false,
		`resource="customs",scope="cluster",subresource="",verb="LIST"`:  true,
		`resource="pods",scope="cluster",subresource="",verb="WATCH"`:    true,
	} {
		group := map[bool]string{true: "x"}[strings.Contains(series, "customs")]
		if got := strings.Contains(text,
			fmt.Sprintf(`apiserver_response_sizes_count{component="apiserver",group=%q,`, group)+series); got != want {
			t.Errorf("%s: %t", series, got)
		}
	}
}

// TestPeaks: without fairness it is told how many requests there were at most at a time, since it was told of last.
func TestPeaks(t *testing.T) {
	endpointmetrics.Register()
	flowmetrics.Register()
	var s *Server
	s = serverOf(t, func(w http.ResponseWriter, r *http.Request) {
		if infoOf(r).Name == "first" {
			ask(s, http.MethodGet, "/api/v1/pods/second")
		}
	}, func(c *Config) { c.MaxInFlight = 10 })
	inUse := func() (sum float64) { // over the time
		_, rest, _ := strings.Cut(ask(s, http.MethodGet, "/metrics").Body.String(),
			`apiserver_flowcontrol_read_vs_write_current_requests_sum{phase="executing",request_kind="readOnly"} `)
		_, _ = fmt.Sscan(rest, &sum)
		return sum
	}
	used := inUse()
	ask(s, http.MethodGet, "/api/v1/pods/first")
	told := func() string {
		s.peaks.publish()
		for line := range strings.Lines(ask(s, http.MethodGet, "/metrics").Body.String()) {
			if n, ok := strings.CutPrefix(line, `apiserver_current_inflight_requests{request_kind="readOnly"} `); ok {
				return strings.TrimSpace(n)
			}
		}
		return "nothing"
	}
	if got := told(); got != "2" {
		t.Errorf("at first %s", got)
	}
	if got := told(); got != "1" { // who asks
		t.Errorf("then %s", got)
	}
	if now := inUse(); now <= used {
		t.Errorf("what part of the bound was in use: %v, before %v", now, used)
	}
}
