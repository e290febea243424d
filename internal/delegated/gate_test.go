package delegated

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/internal/certs"
)

// cluster plays the API server: token "good" is alice's, who may get /metrics, and token "bob" is bob's, who may not.
type cluster struct {
	*fake.Clientset
	reviews, decisions atomic.Int32
	broken             atomic.Bool
}

var errBroken = errors.New("out of order")

func newCluster(objects ...runtime.Object) *cluster {
	c := &cluster{Clientset: fake.NewClientset(objects...)}
	c.PrependReactor("create", "tokenreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		c.reviews.Add(1)
		review := action.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview).DeepCopy()
		name, known := map[string]string{"good": "alice", "bob": "bob"}[review.Spec.Token]
		if c.broken.Load() {
			return true, nil, errBroken
		}
		review.Status = authenticationv1.TokenReviewStatus{Authenticated: known,
			User: authenticationv1.UserInfo{Username: name}}
		return true, review, nil
	})
	c.PrependReactor("create", "subjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		c.decisions.Add(1)
		review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
		if c.broken.Load() {
			return true, nil, errBroken
		}
		asked := review.Spec.NonResourceAttributes
		if resource := review.Spec.ResourceAttributes; resource != nil {
			review.Status.Allowed = *resource == authorizationv1.ResourceAttributes{Verb: "list", Group: "zoo",
				Version: "v1", Resource: "lions", Namespace: "den"}
			return true, review, nil
		}
		review.Status.Allowed = review.Spec.User == "alice" &&
			slices.Contains(review.Spec.Groups, "system:authenticated") &&
			asked.Path == "/metrics" && asked.Verb == "get"
		if review.Spec.User == "bob" {
			review.Status.Reason = "not <bob>"
		}
		return true, review, nil
	})
	return c
}

func authority(t *testing.T, name string) *certs.Authority {
	t.Helper()
	a, err := certs.NewAuthority(name)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func publish(clients, proxies *certs.Authority) *v1.ConfigMap {
	return &v1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: published},
		Data: map[string]string{
			clientCA: string(clients.Cert), proxyCA: string(proxies.Cert), allowedNames: `["proxy"]`,
			usernameHeaders: `["X-Remote-User"]`, groupHeaders: `["X-Remote-Group"]`,
			extraHeaderPrefixes: `["X-Remote-Extra-"]`,
		},
	}
}

// serve returns an address behind the gate, which is kept up to date until the test ends.
func serve(t *testing.T, g *Gate) string {
	t.Helper()
	server := httptest.NewUnstartedServer(g.Protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "in "+r.Header.Get("Authorization"))
	})))
	server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	server.StartTLS()
	t.Cleanup(server.Close)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return server.URL
}

type request struct {
	path, token, accept string
	certificate         *certs.Pair
	header              http.Header
}

func (r request) send(t *testing.T, url string) (*http.Response, string) {
	t.Helper()
	config := &tls.Config{InsecureSkipVerify: true}
	if r.certificate != nil {
		pair, err := tls.X509KeyPair(r.certificate.Cert, r.certificate.Key)
		if err != nil {
			t.Fatal(err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+r.path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.header != nil {
		req.Header = r.header.Clone()
	}
	if r.token != "" {
		req.Header.Set("Authorization", "Bearer "+r.token)
	}
	if r.accept != "" {
		req.Header.Set("Accept", r.accept)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	response, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(body)
}

func client(t *testing.T, ca *certs.Authority, name string, groups ...string) *certs.Pair {
	t.Helper()
	pair, err := ca.Client(name, groups...)
	if err != nil {
		t.Fatal(err)
	}
	return &pair
}

func TestWhoMaySeeWhat(t *testing.T) {
	clients, proxies, strangers := authority(t, "clients"), authority(t, "proxies"), authority(t, "strangers")
	api := newCluster(publish(clients, proxies))
	o := Default()
	g, err := assemble(t.Context(), &o, api, api, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, bundle := range g.Authorities {
		told = append(told, string(bundle()))
	}
	slices.Sort(told)
	if want := slices.Sorted(slices.Values([]string{string(clients.Cert), string(proxies.Cert)})); !slices.Equal(told,
		want) {
		t.Errorf("clients are told of %q", told)
	}
	url := serve(t, g)
	as := func(user string) http.Header { return http.Header{"X-Remote-User": {user}} }
	for name, test := range map[string]struct {
		request
		code int
		body string
	}{
		"health needs nobody":   {request{path: "/healthz"}, 200, "in "},
		"what is under it does": {request{path: "/healthz/etcd"}, 403, `cannot get path \"/healthz/etcd\"`},
		"nobody": {request{path: "/metrics"}, 403,
			`"message":"forbidden: User \"system:anonymous\" cannot get path \"/metrics\"","reason":"Forbidden"`},
		"a token that may": {request{path: "/metrics", token: "good"}, 200, "in "},
		"the same elsewhere": {request{path: "/flagz", token: "good"}, 403,
			`User \"alice\" cannot get path \"/flagz\"`},
		"a token that may not": {request{path: "/metrics", token: "bob"}, 403,
			`User \"bob\" cannot get path \"/metrics\": not`},
		"a token of nobody":             {request{path: "/metrics", token: "stolen"}, 401, `"reason":"Unauthorized"`},
		"a token of nobody, for health": {request{path: "/healthz", token: "stolen"}, 401, `"message":"Unauthorized"`},
		"a certificate that may": {request{path: "/metrics", certificate: client(t, clients, "alice")},
			200, "in "},
		"a certificate that may not": {request{path: "/metrics", certificate: client(t, clients, "carol")},
			403, "carol"},
		"a master": {request{path: "/flagz",
			certificate: client(t, clients, "root", "system:masters")}, 200, "in "},
		"a stranger's certificate": {request{path: "/metrics", certificate: client(t, strangers, "alice")}, 401,
			"Unauthorized"},
		"a proxy's word": {request{path: "/metrics", certificate: client(t, proxies, "proxy"),
			header: as("alice")}, 200, "in "},
		"another's word": {request{path: "/metrics", certificate: client(t, proxies, "other"),
			header: as("alice")}, 401, "Unauthorized"},
		"a client's word": {request{path: "/metrics", certificate: client(t, clients, "carol"),
			header: as("alice")}, 403, "carol"},
		"YAML": {request{path: "/metrics", accept: "application/yaml"}, 403,
			"reason: Forbidden\n"},
		"for people":              {request{path: "/metrics?pretty=true"}, 403, "{\n  \"kind\": \"Status\","},
		"a form that isn't known": {request{path: "/metrics", accept: "text/plain"}, 403, `"reason":"Forbidden"`},
	} {
		t.Run(name, func(t *testing.T) {
			response, body := test.send(t, url)
			if response.StatusCode != test.code || !strings.Contains(body, test.body) {
				t.Errorf("%d %s", response.StatusCode, body)
			}
			if got := response.Header.Get("Cache-Control"); got != "no-cache, private" {
				t.Errorf("Cache-Control: %q", got)
			}
			if response.StatusCode == 200 && body != "in " {
				t.Errorf("what is behind the gate sees the credentials: %q", body)
			}
			var status metav1.Status
			if response.Header.Get("Content-Type") == "application/json" &&
				(json.Unmarshal([]byte(body), &status) != nil || int(status.Code) != test.code) {
				t.Errorf("not a Status: %s", body)
			}
		})
	}
}

// TestResources: where requests are for resources, those are asked about.
func TestResources(t *testing.T) {
	ca := authority(t, "ca")
	api := newCluster(publish(ca, ca))
	o := Default()
	g, err := assemble(t.Context(), &o, api, api, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	g.RequestInfo = &apirequest.RequestInfoFactory{APIPrefixes: sets.NewString("apis")}
	url := serve(t, g)
	for path, want := range map[string]struct {
		code int
		body string
	}{
		"/apis/zoo/v1/namespaces/den/lions": {200, "in "},
		"/apis/zoo/v1/namespaces/den/lions/leo": {403, `lions.zoo \"leo\" is forbidden: User \"alice\" cannot get resource ` +
			`\"lions\" in API group \"zoo\" in the namespace \"den\"`},
		"/apis/zoo/v1/lions?watch=true": {403,
			`cannot watch resource \"lions\" in API group \"zoo\" at the cluster scope`},
		"/apis/zoo/v1/lions/leo/status": {403, `cannot get resource \"lions/status\"`},
		"/metrics":                      {200, "in "},
		"/apis":                         {403, `cannot get path \"/apis\"`},
	} {
		response, body := request{path: path, token: "good"}.send(t, url)
		if response.StatusCode != want.code || !strings.Contains(body, want.body) {
			t.Errorf("%s: %d %s", path, response.StatusCode, body)
		}
	}
}

// TestAnswersAreRemembered: repeated requests are served from the cache without a review.
func TestAnswersAreRemembered(t *testing.T) {
	ca := authority(t, "ca")
	api := newCluster(publish(ca, ca))
	o := Default()
	o.TokenTTL, o.AllowTTL, o.DenyTTL = time.Hour, time.Hour, time.Hour
	g, err := assemble(t.Context(), &o, api, api, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	url := serve(t, g)
	for range 3 {
		if response, body := (request{path: "/metrics", token: "good"}).send(t, url); response.StatusCode != 200 {
			t.Fatalf("%d %s", response.StatusCode, body)
		}
		if response, body := (request{path: "/metrics"}).send(t, url); response.StatusCode != 403 {
			t.Fatalf("%d %s", response.StatusCode, body)
		}
	}
	if reviews, decisions := api.reviews.Load(), api.decisions.Load(); reviews != 1 || decisions != 2 {
		t.Errorf("%d reviews of one token, %d of two accesses", reviews, decisions)
	}
	api.broken.Store(true)
	if response, body := (request{path: "/metrics", token: "good"}).send(t, url); response.StatusCode != 200 {
		t.Errorf("with the API server gone, what is remembered: %d %s", response.StatusCode, body)
	}
	if response, body := (request{path: "/flagz", token: "good"}).send(t, url); response.StatusCode != 500 ||
		!strings.HasPrefix(body, `Internal Server Error: "/flagz": out of order`) {
		t.Errorf("what isn't: %d %q", response.StatusCode, body)
	}
	if response, _ := (request{path: "/metrics", token: "bob"}).send(t, url); response.StatusCode != 401 {
		t.Errorf("a token that isn't: %d", response.StatusCode)
	}
}

// TestPublishedAuthoritiesAreFollowed: a new authority is trusted, rubbish changes nothing.
func TestPublishedAuthoritiesAreFollowed(t *testing.T) {
	before, after, proxies := authority(t, "before"), authority(t, "after"), authority(t, "proxies")
	api := newCluster(publish(before, proxies))
	o := Default()
	g, err := assemble(t.Context(), &o, api, api, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	url := serve(t, g)
	knows := func(ca *certs.Authority) bool {
		response, _ := request{path: "/metrics", certificate: client(t, ca, "alice")}.send(t, url)
		return response.StatusCode == 200
	}
	if !knows(before) || knows(after) {
		t.Fatal("at first")
	}
	change := func(m *v1.ConfigMap) {
		t.Helper()
		if _, err := api.CoreV1().ConfigMaps("kube-system").Update(t.Context(), m, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "follows", func() bool { // an update that the informer's watch is too late for is in its list
		change(publish(after, proxies))
		return knows(after) && !knows(before)
	})
	rubbish := publish(after, proxies)
	rubbish.Data[clientCA], rubbish.Data[proxyCA] = "rubbish", string(before.Cert)
	change(rubbish)
	eventually(t, "takes what can be used", func() bool {
		response, _ := request{path: "/metrics", certificate: client(t, before, "proxy"),
			header: http.Header{"X-Remote-User": {"alice"}}}.send(t, url)
		return response.StatusCode == 200
	})
	if !knows(after) {
		t.Error("rubbish did away with the authority before")
	}
}

// TestCertificateBeforeAuthorities: a client with a certificate that comes before the API server has published its
// authorities waits for them, and is not taken for anonymous; a client without one is answered at once.
func TestCertificateBeforeAuthorities(t *testing.T) {
	clients, proxies := authority(t, "clients"), authority(t, "proxies")
	api := newCluster()
	o := Default()
	steps := testingclock.NewFakeClock(time.Now())
	g, err := assemble(t.Context(), &o, api, api, steps)
	if err != nil {
		t.Fatal(err)
	}
	url := serve(t, g)
	if response, _ := (request{path: "/metrics"}).send(t, url); response.StatusCode != 403 {
		t.Errorf("without a certificate: %d", response.StatusCode)
	}
	waits := func() chan int {
		answers := make(chan int)
		go func() {
			response, _ := request{path: "/metrics", certificate: client(t, clients, "alice")}.send(t, url)
			answers <- response.StatusCode
		}()
		eventually(t, "waits", steps.HasWaiters)
		return answers
	}
	answers := waits()
	steps.Step(authorityWait)
	if code := <-answers; code != 403 {
		t.Errorf("after a while: %d", code)
	}
	answers = waits()
	maps := api.CoreV1().ConfigMaps("kube-system")
	if _, err := maps.Create(t.Context(), publish(clients, proxies), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var code int
	eventually(t, "answers", func() bool { // an update that the informer's watch is too late for is in its list
		select {
		case code = <-answers:
			return true
		default:
			_, err := maps.Update(t.Context(), publish(clients, proxies), metav1.UpdateOptions{})
			return err != nil
		}
	})
	if code != 200 {
		t.Errorf("once they are published: %d", code)
	}
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("never " + what)
		}
	}
}

func TestAuthoritiesOfFiles(t *testing.T) {
	clients, proxies := authority(t, "clients"), authority(t, "proxies")
	dir := t.TempDir()
	o := Default()
	o.ClientCAFile, o.RequestHeader.ClientCAFile = filepath.Join(dir, "clients"), filepath.Join(dir, "proxies")
	for file, ca := range map[string]*certs.Authority{o.ClientCAFile: clients, o.RequestHeader.ClientCAFile: proxies} {
		if err := os.WriteFile(file, ca.Cert, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	api := newCluster()
	g, err := assemble(t.Context(), &o, nil, api, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	url := serve(t, g)
	for name, r := range map[string]request{
		"client": {path: "/metrics", certificate: client(t, clients, "alice")},
		"proxy": {path: "/metrics", certificate: client(t, proxies, "any"),
			header: http.Header{"X-Remote-User": {"alice"}}},
	} {
		if response, body := r.send(t, url); response.StatusCode != 200 {
			t.Errorf("%s: %d %s", name, response.StatusCode, body)
		}
	}
	o.ClientCAFile = filepath.Join(dir, "missing")
	if _, err := assemble(t.Context(), &o, nil, api, clock.RealClock{}); err == nil ||
		!strings.Contains(err.Error(), "--client-ca-file") {
		t.Errorf("a file that is missing: %v", err)
	}
}

func TestLookupThatFails(t *testing.T) {
	api := newCluster()
	api.PrependReactor("get", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil,
			errBroken
	})
	o := Default()
	if _, err := assemble(t.Context(), &o, api, api, clock.RealClock{}); !errors.Is(err, errBroken) {
		t.Errorf("not tolerated: %v", err)
	}
	for name, change := range map[string]func(*Options){
		"tolerated": func(o *Options) { o.TolerateLookupFailure = true },
		"skipped":   func(o *Options) { o.SkipLookup = true },
	} {
		o := Default()
		change(&o)
		g, err := assemble(t.Context(), &o, api, api, clock.RealClock{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if response, body := (request{path: "/metrics", token: "good"}).send(t,
			serve(t, g)); response.StatusCode != 200 {
			t.Errorf("%s: %d %s", name, response.StatusCode, body)
		}
	}
}

// TestWithoutAnAPIServer: every request is anonymous, and only paths without authorization are served.
func TestWithoutAnAPIServer(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	g, err := New(t.Context(), Default(), clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	url := serve(t, g)
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/metrics": 403} {
		if response, body := (request{path: path, token: "good"}).send(t, url); response.StatusCode != want {
			t.Errorf("%s: %d %s", path, response.StatusCode, body)
		}
	}
}

func TestOptionsThatCannotBe(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	good := Default()
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*Options){
		"requestheader-username-headers":    func(o *Options) { o.RequestHeader.UsernameHeaders = []string{" "} },
		"requestheader-allowed-names":       func(o *Options) { o.RequestHeader.AllowedNames = []string{""} },
		"--requestheader-uid-headers":       func(o *Options) { o.RequestHeader.UIDHeaders = []string{"X-Id"} },
		"--authentication-kubeconfig":       func(o *Options) { o.AuthenticationKubeconfig = "/nowhere" },
		"--authorization-kubeconfig":        func(o *Options) { o.AuthorizationKubeconfig = "/nowhere" },
		"--authorization-always-allow-path": func(o *Options) { o.AlwaysAllowPaths = []string{"/a*b"} },
	} {
		o := Default()
		change(&o)
		err := o.Validate()
		if err == nil {
			_, err = New(t.Context(), o, clock.RealClock{})
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
