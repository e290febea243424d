package server

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"quintet.dev/quintet/internal/health"
)

// make a server whose API is h, for the user alice.
func serverOf(t *testing.T, h http.HandlerFunc, change ...func(*Config)) *Server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	config := Config{
		Listener: listener, API: h, Impersonation: Impersonation{Name: "constrainedimpersonation"},
		Authenticator: authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
			return &authenticator.Response{User: &user.DefaultInfo{Name: "alice"}}, true, nil
		}),
		Authorizer: authorizer.AuthorizerFunc(
			func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
				if a.GetResource() == "secrets" {
					return authorizer.DecisionNoOpinion, "", nil
				}
				return authorizer.DecisionAllow, "", nil
			}),
	}
	for _, f := range change {
		f(&config)
	}
	s, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func ask(s *Server, method, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w
}

func ok(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }

func TestChain(t *testing.T) {
	s := serverOf(t, ok)
	cases := map[string]struct {
		path string
		code int
		text string
	}{
		"served": {"/api/v1/namespaces/x/pods/p", 200, "ok"},
		"forbidden": {
			"/api/v1/namespaces/x/secrets/s",
			403,
			`secrets \"s\" is forbidden: User \"alice\" cannot get resource \"secrets\" in API group \"\" in the namespace \"x\"`,
		},
		"no path":     {"/nothing", 404, "404 page not found"},
		"bad timeout": {"/api/v1/pods?timeout=soon", 400, "invalid timeout specified"},
		"metrics": {
			"/metrics",
			200,
			`apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="",verb="GET",version="v1"} 1`,
		},
	}
	for _, name := range []string{"served", "forbidden", "no path", "bad timeout", "metrics"} {
		c := cases[name]
		w := ask(s, http.MethodGet, c.path)
		if w.Code != c.code || !strings.Contains(w.Body.String(), c.text) {
			t.Errorf("%s: got %d %s", name, w.Code, w.Body)
		}
		if w.Header().Get("Audit-Id") == "" {
			t.Errorf("%s: no Audit-Id", name)
		}
	}
}

func TestTooManyRequests(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	s := serverOf(t, func(w http.ResponseWriter, r *http.Request) {
		entered <- struct{}{}
		<-leave
		ok(w, r)
	}, func(c *Config) { c.MaxInFlight = 1 })
	first := make(chan int)
	go func() { first <- ask(s, http.MethodGet, "/api/v1/pods").Code }()
	<-entered
	if w := ask(s, http.MethodGet, "/api/v1/pods"); w.Code != http.StatusTooManyRequests ||
		w.Header().Get("Retry-After") == "" {
		t.Errorf("got %d, %v", w.Code, w.Header())
	}
	close(leave)
	if code := <-first; code != http.StatusOK {
		t.Errorf("the first got %d", code)
	}
}

func TestHealth(t *testing.T) {
	sick := func(*http.Request) error { return errors.New("secret reason") }
	well := func(*http.Request) error { return nil }
	s := serverOf(t, ok, func(c *Config) {
		c.Ready = []health.Check{{Name: "sick", Probe: sick}}
		c.Live = []health.Check{{Name: "store", Group: "store", Probe: well},
			{Name: "other-store", Group: "store", Probe: well}}
	})
	cases := []struct {
		path string
		code int
		want string
	}{
		{"/livez", 200, "ok"},
		{"/livez?verbose", 200, "[+]ping ok\n[+]store ok\n[+]other-store ok\nlivez check passed\n"},
		{"/livez?verbose&exclude=other-store", 200,
			"[+]ping ok\n[+]store ok\n[+]other-store excluded: ok\nlivez check passed\n"},
		{"/livez?verbose&exclude=store&exclude=store", 200,
			"[+]ping ok\n[+]store excluded: ok\n[+]other-store excluded with store: ok\nlivez check passed\n"},
		{"/readyz", 500, "[+]ping ok\n[-]sick failed: reason withheld\n[+]shutdown ok\nreadyz check failed\n"},
		{"/readyz?exclude=sick", 200, "ok"},
		{"/readyz/sick", 500, "internal server error: secret reason\n"},
		{"/readyz/ping", 200, "ok"},
		{"/readyz/nope", 404, "404 page not found\n"},
		{"/healthz/", 404, "404 page not found\n"},
		{"/livez?exclude=nope&exclude=none&verbose", 200,
			"[+]ping ok\n[+]store ok\n[+]other-store ok\nwarn: some health checks cannot be excluded: no matches for " +
				"\"none\",\"nope\"\nlivez check passed\n"},
	}
	for _, c := range cases {
		if w := ask(s, http.MethodGet, c.path); w.Code != c.code || w.Body.String() != c.want {
			t.Errorf("%s: got %d %q", c.path, w.Code, w.Body)
		}
	}
}

// TestDrain: a request under way is finished, a watch is told to end, and then Run returns.
func TestDrain(t *testing.T) {
	entered := make(chan struct{}, 2)
	leave := make(chan struct{})
	s := serverOf(t, func(w http.ResponseWriter, r *http.Request) {
		entered <- struct{}{}
		if infoOf(r).Verb == "watch" {
			<-r.Context().Done()
			return
		}
		<-leave
		ok(w, r)
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	base := "http://" + s.config.Listener.Addr().String()
	answers := make(chan string, 2)
	for _, path := range []string{"/api/v1/pods", "/api/v1/pods?watch=1"} {
		go func() {
			response, err := http.Get(base + path)
			if err != nil {
				answers <- err.Error()
				return
			}
			defer response.Body.Close()
			text, _ := io.ReadAll(response.Body)
			answers <- string(text)
		}()
	}
	<-entered
	<-entered
	cancel()
	if got := <-answers; got != "" {
		t.Errorf("the watch got %q", got)
	}
	if w := ask(s, http.MethodGet, "/readyz"); w.Code != http.StatusInternalServerError {
		t.Errorf("ready while draining: %d", w.Code)
	}
	close(leave)
	if got := <-answers; got != "ok" {
		t.Errorf("the request under way got %q", got)
	}
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("Run doesn't return")
	}
}

// TestRetryLater: while requests under way are finished, others are sent elsewhere, but for questions about health.
func TestRetryLater(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	s := serverOf(t, func(w http.ResponseWriter, r *http.Request) {
		if infoOf(r).Name == "slow" {
			close(entered)
			<-leave
		}
		ok(w, r)
	}, func(c *Config) { c.Shutdown.RetryAfter = true })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	base := "http://" + s.config.Listener.Addr().String()
	get := func(path string) (*http.Response, error) {
		r, err := http.Get(base + path)
		if err == nil {
			_ = r.Body.Close()
		}
		return r, err
	}
	slow := make(chan int, 1)
	go func() {
		if r, err := get("/api/v1/namespaces/slow"); err == nil {
			slow <- r.StatusCode
		}
		close(slow)
	}()
	<-entered
	cancel()
	<-s.closing
	r, err := get("/api/v1/namespaces/other")
	if err != nil || r.StatusCode != http.StatusTooManyRequests || r.Header.Get("Retry-After") != "5" || !r.Close {
		t.Errorf("another got %+v, %v", r, err)
	}
	if r, err := get("/livez"); err != nil || r.StatusCode != http.StatusOK {
		t.Errorf("livez: %+v, %v", r, err)
	}
	close(leave)
	if code := <-slow; code != http.StatusOK {
		t.Errorf("the request under way got %d", code)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestPaths: only what is said to be a service may have a slash at its end, and nothing may begin with two.
func TestPaths(t *testing.T) {
	m := NewMux()
	m.Service("/version", http.HandlerFunc(ok))
	s := serverOf(t, ok, func(c *Config) { c.Paths = m })
	for path, want := range map[string]int{
		"/version": 200, "/version/": 200, "/metrics": 200, "/metrics/": 404, "/metrics/slis": 200, "/api/v1/pods": 200,
		"//api/v1/pods": 404,
		"/api/v1/watch": 500,
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.URL.Path, r.RequestURI = path, path
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
		if want := "Internal Server Error: \"/api/v1/watch\": failed to create RequestInfo: "; w.Code == 500 &&
			!strings.HasPrefix(w.Body.String(), want) {
			t.Errorf("%s: %s", path, w.Body)
		}
	}
}
