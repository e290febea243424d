package aggregation

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/user"
	endpointmetrics "k8s.io/apiserver/pkg/endpoints/metrics"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/component-base/metrics/legacyregistry"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
	clocktesting "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/apiserver/aggregation/aggregationtest"
	"quintet.dev/quintet/components/apiserver/objects/objectstest"
	"quintet.dev/quintet/internal/certs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var testTime = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// onLoopback finds every Service there.
type onLoopback struct{ port atomic.Int32 }

func (l *onLoopback) ResolveEndpoint(_, _ string, _ int32) (*url.URL, error) {
	port := l.port.Load()
	if port == 0 {
		return nil, errors.New("nobody is there")
	}
	return &url.URL{Scheme: "https", Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port)))}, nil
}

// fixture is an aggregator with one APIService for the server of aggregationtest.
type fixture struct {
	*Aggregator
	store    *objectstest.Store
	services *onLoopback
	clock    *clocktesting.FakeClock
	name     string

	mu   sync.Mutex
	view View
}

// prepare makes one that has made its first pass, and doesn't run.
func prepare(t *testing.T, server *aggregationtest.Server,
	change ...func(*Config, *apiregistrationv1.APIServiceSpec)) *fixture {
	t.Helper()
	f := &fixture{store: &objectstest.Store{}, services: &onLoopback{}, clock: clocktesting.NewFakeClock(testTime)}
	f.services.port.Store(server.Port())
	config := Config{Objects: f.store, Services: f.services, Clock: f.clock, Changed: func(v View) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.view = v
	}}
	gv := aggregationtest.GroupVersion
	f.name = gv.Version + "." + gv.Group
	s := &apiService{ObjectMeta: metav1.ObjectMeta{Name: f.name}, Spec: apiregistrationv1.APIServiceSpec{
		Group: gv.Group, Version: gv.Version, GroupPriorityMinimum: 1000, VersionPriority: 15, CABundle: server.CA(),
		Service: &apiregistrationv1.ServiceReference{Namespace: "default", Name: "zoo"},
	}}
	for _, c := range change {
		c(&config, &s.Spec)
	}
	f.store.Put(resource, s)
	f.store.Put(services, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "zoo"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName},
	})
	var err error
	if f.Aggregator, err = New(config); err != nil {
		t.Fatal(err)
	}
	if err := f.Serve(nil, nil); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	return f
}

// start makes one that runs.
func start(t *testing.T, server *aggregationtest.Server,
	change ...func(*Config, *apiregistrationv1.APIServiceSpec)) *fixture {
	t.Helper()
	f := prepare(t, server, change...)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return f
}

// until moves the clock until something is so.
func (f *fixture) until(t *testing.T, what string, so func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 2*time.Millisecond, time.Minute, true,
		func(context.Context) (bool, error) {
			f.clock.Step(time.Second)
			return so(), nil
		})
	if err != nil {
		t.Fatalf("%s: %v; condition %+v", what, err, f.condition(t))
	}
}

func (f *fixture) condition(t *testing.T) apiregistrationv1.APIServiceCondition {
	t.Helper()
	obj, err := f.store.Get(t.Context(), resource, "", f.name)
	if err != nil {
		t.Fatal(err)
	}
	if c := helper.GetAPIServiceConditionByType(obj.(*apiService), apiregistrationv1.Available); c != nil {
		return *c
	}
	return apiregistrationv1.APIServiceCondition{}
}

func (f *fixture) untilReason(t *testing.T, reason string) apiregistrationv1.APIServiceCondition {
	t.Helper()
	f.until(t, reason, func() bool { return f.condition(t).Reason == reason })
	return f.condition(t)
}

// untilServed waits until requests are passed on, and discovery knows of what.
func (f *fixture) untilServed(t *testing.T) {
	t.Helper()
	f.until(t, "is served", func() bool { return f.described() == "Current things[status]" })
}

// told is what Changed was last called with; passes go on meanwhile.
func (f *fixture) told() View {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.view
}

// described is what discovery is told of the group version.
func (f *fixture) described() string {
	d := f.told().Elsewhere[aggregationtest.GroupVersion]
	if d == nil {
		return ""
	}
	out := string(d.Freshness)
	for _, r := range d.Resources {
		out += " " + r.Resource
		for _, s := range r.Subresources {
			out += "[" + s.Subresource + "]"
		}
	}
	return out
}

var alice = &user.DefaultInfo{
	Name: "alice", UID: "u1", Groups: []string{"dev", "system:authenticated"},
	Extra: map[string][]string{"example.com/tier": {"gold", "silver"}},
}

// ask sends a request in the name of alice.
func (f *fixture) ask(t *testing.T, r *http.Request) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	w.Header().Set("Audit-Id", "audited")
	f.serve(w, r)
	return w
}

func (f *fixture) serve(w http.ResponseWriter, r *http.Request) {
	h := f.Route(r)
	if h == nil {
		http.Error(w, "served here", http.StatusTeapot)
		return
	}
	h.ServeHTTP(w, r.WithContext(request.WithUser(r.Context(), alice)))
}

func get(path string) *http.Request { return httptest.NewRequest(http.MethodGet, path, nil) }

const things = "/apis/zoo.example.com/v1/namespaces/default/things"

func TestPassesRequestsOn(t *testing.T) {
	server := (&aggregationtest.Server{}).Start(t)
	f := start(t, server)
	f.untilServed(t)
	r := httptest.NewRequest(http.MethodPost, things+"?x=%2F&dryRun=All&none=%zz", strings.NewReader("a thing"))
	r.Header.Set("X-Remote-User", "system:admin")
	r.Header.Set("X-Remote-Group", "system:masters")
	r.Header.Set("X-Remote-Extra-Scopes", "all")
	r.Header.Set("X-Custom", "kept")
	if w := f.ask(t, r); w.Code != http.StatusOK || w.Header().Get("Warning") != `299 - "things bite"` ||
		!strings.Contains(w.Body.String(), "ThingList") {
		t.Errorf("answer: %d %v %s", w.Code, w.Header(), w.Body)
	}
	in := server.Requests(things)
	if len(in) != 1 || in[0].Method != http.MethodPost || in[0].Body != "a thing" || in[0].Query != "dryRun=All&x=%2F" {
		t.Fatalf("request: %+v", in)
	}
	for name, want := range map[string]string{
		"X-Remote-User": "[alice]", "X-Remote-Uid": "[u1]", "X-Remote-Group": "[dev system:authenticated]",
		"X-Remote-Extra-Example.com%2ftier": "[gold silver]", "X-Remote-Extra-Scopes": "[]", "X-Custom": "[kept]",
		"Audit-Id": "[audited]",
	} {
		if got := fmt.Sprint(in[0].Header[name]); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if w := f.ask(t, get("/apis/zoo.example.com/v1/moved")); w.Code != http.StatusBadGateway ||
		w.Header().Get("Location") != "" {
		t.Errorf("a redirect: %d %v", w.Code, w.Header())
	}
	for _, path := range []string{"/apis/zoo.example.com", "/apis/zoo.example.com/v2/things",
		"/apis/zoo.example.com/v1beta1", "/api/v1/pods", "/apis//v1"} {
		if w := f.ask(t, get(path)); w.Code != http.StatusTeapot {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

func TestUpgrade(t *testing.T) {
	server := (&aggregationtest.Server{}).Start(t)
	f := start(t, server)
	f.untilServed(t)
	front := httptest.NewServer(http.HandlerFunc(f.serve))
	t.Cleanup(front.Close)
	conn, err := net.Dial("tcp", front.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn,
		"GET /apis/zoo.example.com/v1/echo HTTP/1.1\r\nHost: front\r\nConnection: Upgrade\r\nUpgrade: "+
			"shouting\r\nX-Remote-User: mallory\r\n\r\n")
	in := bufio.NewReader(conn)
	response, err := http.ReadResponse(in, nil)
	if err != nil || response.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%v, %v", response, err)
	}
	fmt.Fprintln(conn, "moo")
	if line, err := in.ReadString('\n'); line != "MOO\n" || err != nil {
		t.Errorf("%q, %v", line, err)
	}
	if who := server.Requests("/apis/zoo.example.com/v1/echo")[0].Header["X-Remote-User"]; fmt.Sprint(
		who) != "[alice]" {
		t.Errorf("upgraded as %v", who)
	}
}

// TestComesAndGoes follows a server through its troubles.
func TestComesAndGoes(t *testing.T) {
	server := (&aggregationtest.Server{}).Start(t)
	f := start(t, server)
	f.untilServed(t)
	if c := f.condition(t); c.Status != apiregistrationv1.ConditionTrue || c.Message != "all checks passed" {
		t.Errorf("well: %+v", c)
	}

	server.Sicken(http.StatusInternalServerError)
	c := f.untilReason(t, "FailedDiscoveryCheck")
	at := fmt.Sprintf("https://127.0.0.1:%d/apis/zoo.example.com/v1", server.Port())
	if want := fmt.Sprintf("failing or missing response from %s: bad status from %s: 500", at, at); c.Message != want ||
		c.Status != apiregistrationv1.ConditionFalse {
		t.Errorf("sick: %+v, want %s", c, want)
	}
	f.until(t, "is stale and not asked any more", func() bool {
		w := f.ask(t, get(things))
		return f.described() == "Stale" && w.Code == http.StatusServiceUnavailable &&
			w.Body.String() == "service unavailable\n"
	})

	server.Sicken(0)
	server.Rename("beasts")
	f.until(t, "is served again", func() bool { return f.described() == "Current beasts[status]" })
	f.untilReason(t, "Passed") // what it serves may have been discovered before its availability was checked

	f.store.Remove(services, "default", "zoo")
	if c := f.untilReason(t, "ServiceNotFound"); c.Message != `service/zoo in "default" is not present` {
		t.Errorf("no Service: %+v", c)
	}
	f.store.Put(services, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "zoo"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName},
	})
	f.untilReason(t, "Passed")
	f.services.port.Store(0)
	if c := f.untilReason(t, "FailedDiscoveryCheck"); c.Message != "nobody is there" {
		t.Errorf("nobody: %+v", c)
	}
	f.services.port.Store(server.Port())
	f.untilReason(t, "Passed")

	want := `
# HELP aggregator_unavailable_apiservice Whether an APIService is marked as unavailable, by its name.
# TYPE aggregator_unavailable_apiservice gauge
aggregator_unavailable_apiservice{name="v1.zoo.example.com"} 0
# HELP aggregator_unavailable_apiservice_total How often an APIService that was available was marked as unavailable, by its name and the reason.
# TYPE aggregator_unavailable_apiservice_total counter
aggregator_unavailable_apiservice_total{name="v1.zoo.example.com",reason="FailedDiscoveryCheck"} 2
aggregator_unavailable_apiservice_total{name="v1.zoo.example.com",reason="ServiceNotFound"} 1
`
	if err := testutil.CollectAndCompare(f.Aggregator, strings.NewReader(want)); err != nil {
		t.Error(err)
	}

	f.store.Remove(resource, "", f.name)
	f.until(t, "is forgotten", func() bool { return f.described() == "" })
	if w := f.ask(t, get(things)); w.Code != http.StatusTeapot {
		t.Errorf("gone: %d", w.Code)
	}
}

// refused counts the requests that were not passed on, by all tests so far.
func refused(t *testing.T) (n float64) {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "apiserver_request_terminations_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "component" && label.GetValue() == "aggregator" {
					n += metric.GetCounter().GetValue()
				}
			}
		}
	}
	return n
}

// TestDiesBetweenChecks: who is believed to be there and isn't. Only what isn't even tried counts as ended by the
// aggregator.
func TestDiesBetweenChecks(t *testing.T) {
	endpointmetrics.Register()
	server := (&aggregationtest.Server{}).Start(t)
	f := start(t, server)
	f.untilServed(t)
	believed := route{(*f.routes.Load())[aggregationtest.GroupVersion].remote, true}
	ask := func() *httptest.ResponseRecorder {
		w, r := httptest.NewRecorder(), get(things)
		believed.ServeHTTP(w, r.WithContext(request.WithUser(r.Context(), alice)))
		return w
	}
	server.Close()
	before := refused(t)
	w := ask()
	if n := refused(t) - before; n != 0 {
		t.Errorf("a request that was passed on is counted %v times", n)
	}
	if said := w.Body.String(); w.Code != http.StatusServiceUnavailable ||
		strings.Count(said, "error trying to reach service: ") != 1 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	f.services.port.Store(0)
	if w := ask(); w.Code != http.StatusServiceUnavailable || w.Body.String() != "service unavailable\n" {
		t.Errorf("no endpoint: %d %s", w.Code, w.Body)
	}
	if n := refused(t) - before; n != 1 {
		t.Errorf("one that wasn't is counted %v times", n)
	}
}

func TestJudgesCertificates(t *testing.T) {
	another, err := certs.NewAuthority("another")
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name          string
		change        func(*apiregistrationv1.APIServiceSpec)
		reason, error string
	}{
		{name: "unknown authority", change: func(s *apiregistrationv1.APIServiceSpec) { s.CABundle = another.Cert },
			reason: "FailedDiscoveryCheck", error: "x509: certificate signed by unknown authority"},
		{name: "another name", change: func(s *apiregistrationv1.APIServiceSpec) { s.Service.Namespace = "elsewhere" },
			reason: "ServiceNotFound"},
		{name: "nobody looks", change: func(s *apiregistrationv1.APIServiceSpec) {
			s.CABundle,
				s.InsecureSkipTLSVerify = nil, true
		}, reason: "Passed"},
	}
	server := (&aggregationtest.Server{}).Start(t)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := start(t, server, func(_ *Config, s *apiregistrationv1.APIServiceSpec) { test.change(s) })
			if c := f.untilReason(t, test.reason); !strings.Contains(c.Message, test.error) {
				t.Errorf("%+v", c)
			}
		})
	}
}

// TestUnusableAuthority is of a bundle that holds no certificate: nothing is said of the server, and who believed in it
// is told why.
func TestUnusableAuthority(t *testing.T) {
	server := (&aggregationtest.Server{}).Start(t)
	f := start(t, server)
	f.untilServed(t)
	is := (*f.routes.Load())[aggregationtest.GroupVersion].remote
	spec := is.spec.DeepCopy()
	spec.CABundle = []byte("what?")
	broken := is.owner.newRemote(&apiService{ObjectMeta: metav1.ObjectMeta{Name: is.name}, Spec: *spec}, nil)
	if c := broken.check(t.Context()); c != nil {
		t.Errorf("judged: %+v", c)
	}
	w, r := httptest.NewRecorder(), get(things)
	route{broken, true}.ServeHTTP(w, r.WithContext(request.WithUser(r.Context(), alice)))
	if w.Code != http.StatusInternalServerError ||
		w.Body.String() != "unable to load root certificates: unable to parse bytes as PEM block\n" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestIdentity shows its certificate, and the new one when its files change.
func TestIdentity(t *testing.T) {
	authority, err := certs.NewAuthority("front")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "proxy.crt"), filepath.Join(dir, "proxy.key")
	keep := func(name string) {
		pair, err := authority.Client(name)
		if err := errors.Join(err, os.WriteFile(keyFile, pair.Key, 0o600),
			os.WriteFile(certFile, pair.Cert, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	keep("proxy-1")
	server := (&aggregationtest.Server{Proxies: authority.Cert}).Start(t)
	f := start(t, server, func(c *Config, _ *apiregistrationv1.APIServiceSpec) {
		c.ClientCertFile, c.ClientKeyFile = certFile, keyFile
	})
	f.untilServed(t)
	proxy := func() string {
		if w := f.ask(t, get(things)); w.Code != http.StatusOK {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		all := server.Requests(things)
		return all[len(all)-1].Proxy
	}
	if got := proxy(); got != "proxy-1" {
		t.Errorf("certificate of %q", got)
	}
	if err := os.WriteFile(certFile, []byte("half of a cert"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.until(t, "time passes", func() bool { return f.clock.Since(testTime) > 3*reloadEvery })
	if got := proxy(); got != "proxy-1" {
		t.Errorf("certificate of %q while the file is broken", got)
	}
	keep("proxy-2")
	f.until(t, "the new certificate", func() bool { return proxy() == "proxy-2" })
}

func TestIdentityNeedsBothFiles(t *testing.T) {
	for _, test := range []struct{ cert, key, want string }{
		{"a.crt", "", "--proxy-client-cert-file and --proxy-client-key-file go together"},
		{"", "a.key", "--proxy-client-cert-file and --proxy-client-key-file go together"},
		{"/nonexistent/a.crt", "/nonexistent/a.key", "--proxy-client-cert-file /nonexistent/a.crt"},
	} {
		_, err := New(Config{ClientCertFile: test.cert, ClientKeyFile: test.key})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q, %q: %v", test.cert, test.key, err)
		}
	}
}

// TestOldServers tell of themselves in the plain form only.
func TestOldServers(t *testing.T) {
	server := (&aggregationtest.Server{Old: true}).Start(t)
	f := start(t, server)
	f.untilServed(t)
	if r := f.told().Elsewhere[aggregationtest.GroupVersion].Resources[0]; r.ResponseKind.Kind != "Thing" ||
		r.SingularResource != "thing" ||
		r.Scope != "Namespaced" || len(r.Verbs) != 5 || r.ShortNames[0] != "th" {
		t.Errorf("%+v", r)
	}
}

// TestAsksAgainOnlyForNews: what has not changed is not sent again.
func TestAsksAgainOnlyForNews(t *testing.T) {
	server := (&aggregationtest.Server{}).Start(t)
	f := start(t, server)
	f.untilServed(t)
	asked := func() []aggregationtest.Request { return server.Requests("/apis") }
	f.until(t, "is asked again", func() bool { return len(asked()) > 2 })
	for i, r := range asked() {
		if got := r.Header.Get("If-None-Match") != ""; got != (i > 0) {
			t.Errorf("request %d: If-None-Match %q", i, r.Header.Get("If-None-Match"))
		}
		if r.Header.Get("X-Remote-User") != "system:kube-aggregator" ||
			r.Header.Get("X-Remote-Group") != "system:masters" {
			t.Errorf("request %d: %v", i, r.Header)
		}
	}
	if n := len(server.Requests("/openapi/v2")) + len(server.Requests("/openapi/v3")); n > 0 {
		t.Errorf("%d OpenAPI documents that nobody wants", n)
	}
}

func TestDocuments(t *testing.T) {
	server := (&aggregationtest.Server{}).Start(t)
	f := start(t, server)
	f.untilServed(t)
	source := f.told().Sources[0]
	for range 2 {
		d := source.DocumentV2(t.Context())
		if d == nil || !strings.Contains(string(d.Body), "A thing in the zoo.") {
			t.Fatalf("v2: %+v", d)
		}
		paths := source.PathsV3(t.Context())
		if len(paths) != 1 || paths["apis/zoo.example.com/v1"] != "/openapi/v3/apis/zoo.example.com/v1?hash=H" {
			t.Errorf("v3: %v", paths)
		}
	}
	if n := len(server.Requests("/openapi/v2")); n != 1 {
		t.Errorf("v2 was fetched %d times", n)
	}
	f.clock.Step(2 * documentFresh)
	first := source.DocumentV2(t.Context())
	if in := server.Requests("/openapi/v2"); len(in) != 2 || in[1].Header.Get("If-None-Match") == "" ||
		in[1].Header.Get("X-Remote-User") != "system:aggregator" {
		t.Errorf("asked again: %+v", in)
	}
	server.Sicken(http.StatusInternalServerError)
	f.clock.Step(2 * documentFresh)
	if d := source.DocumentV2(t.Context()); d == nil || d.Hash != first.Hash {
		t.Errorf("from a sick server: %+v", d)
	}
	server.Sicken(http.StatusNotFound)
	f.clock.Step(2 * documentFresh)
	if d := source.DocumentV2(t.Context()); d != nil {
		t.Errorf("from a server without: %+v", d)
	}
}

func FuzzPathsIn(f *testing.F) {
	f.Add(
		[]byte(`{"paths":{"apis/zoo.example.com/v1":{"serverRelativeURL":"/openapi/v3/apis/zoo.example.com/v1?hash=1"}}}`),
	)
	f.Add([]byte(`{"paths":{"apis/zoo.example.com":{"serverRelativeURL":"//evil/openapi/v3/apis/zoo.example.com"}}}`))
	f.Add(
		[]byte(`{"paths":{"apis/zoo.example.com/v1":{"serverRelativeURL":"/openapi/v3/../../apis/zoo.example.com/v1"}}}`),
	)
	f.Add([]byte(`{"paths":null}`))
	f.Add([]byte(`[`))
	to := route{remote: &remote{spec: &apiregistrationv1.APIServiceSpec{Group: "zoo.example.com", Version: "v1"}}}
	f.Fuzz(func(t *testing.T, body []byte) {
		paths, err := to.pathsIn(body)
		if err != nil {
			return
		}
		for path, at := range paths {
			if path != "apis/zoo.example.com/v1" && path != "apis/zoo.example.com" ||
				!strings.HasPrefix(at, "/openapi/v3/"+path) {
				t.Errorf("%s at %s", path, at)
			}
		}
	})
}
