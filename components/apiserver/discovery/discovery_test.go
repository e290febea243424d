package discovery

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

func table() []*api.Kind {
	version := func(gv schema.GroupVersion) api.Version { return api.Version{GroupVersion: gv} }
	return []*api.Kind{
		{
			Name: "Pod", Resource: "pods", Singular: "pod", ShortNames: []string{"po"}, Categories: []string{"all"},
			Namespaced: true,
			Hub:        corev1.SchemeGroupVersion, Versions: []api.Version{version(corev1.SchemeGroupVersion)},
			Subresources: []api.Subresource{{Name: "status", Verbs: []string{"get"}},
				{Name: "exec", Verbs: []string{"create"}}},
		},
		{
			Name: "HorizontalPodAutoscaler", Resource: "horizontalpodautoscalers", Singular: "horizontalpodautoscaler",
			Namespaced: true,
			Hub:        autoscalingv2.SchemeGroupVersion,
			Versions: []api.Version{version(autoscalingv1.SchemeGroupVersion),
				version(autoscalingv2.SchemeGroupVersion)},
		},
		{
			Name: "Deployment", Resource: "deployments", Singular: "deployment", Namespaced: true,
			Hub: appsv1.SchemeGroupVersion, Versions: []api.Version{version(appsv1.SchemeGroupVersion)},
			Subresources: []api.Subresource{{
				Name: "scale", Verbs: []string{"get"}, Body: autoscalingv1.SchemeGroupVersion.WithKind("Scale"),
			}},
		},
	}
}

func serve(t *testing.T) *httptest.Server {
	s := New(Config{Address: "192.0.2.1:6443", Hashes: true})
	s.Set(table())
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return server
}

// TestClients reads both forms with client-go's own discovery client: they must tell the same.
func TestClients(t *testing.T) {
	server := serve(t)
	for _, legacy := range []bool{false, true} {
		client := clientdiscovery.NewDiscoveryClientForConfigOrDie(&rest.Config{Host: server.URL})
		client.UseLegacyDiscovery = legacy
		groups, resources, err := client.ServerGroupsAndResources()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, g := range groups {
			got = append(got, g.Name+"="+g.PreferredVersion.GroupVersion)
		}
		if want := []string{"=v1", "apps=apps/v1", "autoscaling=autoscaling/v2"}; !slices.Equal(got, want) {
			t.Errorf("legacy %v: groups %v, want %v", legacy, got, want)
		}
		got = nil
		for _, l := range resources {
			for _, r := range l.APIResources {
				got = append(got, l.GroupVersion+" "+r.Name+" "+r.Kind+" "+strings.Join(r.ShortNames, ","))
			}
		}
		slices.Sort(got)
		want := []string{
			"apps/v1 deployments Deployment ", "apps/v1 deployments/scale Scale ",
			"autoscaling/v1 horizontalpodautoscalers HorizontalPodAutoscaler ",
			"autoscaling/v2 horizontalpodautoscalers HorizontalPodAutoscaler ",
			"v1 pods Pod po", "v1 pods/exec PodExecOptions ", "v1 pods/status Pod ",
		}
		if !slices.Equal(got, want) {
			t.Errorf("legacy %v: resources %q, want %q", legacy, got, want)
		}
	}
}

func get(t *testing.T, url string, header ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp
}

func TestETag(t *testing.T) {
	server := serve(t)
	const accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
	first := get(t, server.URL+"/apis", "Accept", accept)
	etag := first.Header.Get("ETag")
	if etag == "" || first.Header.Get("Content-Type") != strings.Split(accept, ",")[0] {
		t.Fatalf("headers: %v", first.Header)
	}
	if second := get(t, server.URL+"/apis", "Accept", accept, "If-None-Match",
		etag); second.StatusCode != http.StatusNotModified {
		t.Errorf("with its ETag: %s", second.Status)
	}
}

func TestStatus(t *testing.T) {
	server := serve(t)
	for path, want := range map[string]int{
		"/api": 200, "/api/v1": 200, "/apis": 200, "/apis/apps": 200, "/apis/apps/v1": 200, "/apis/apps/v1/": 200,
		"/api/v2": 404, "/apis/none": 404, "/apis/apps/v9": 404, "/apis/v1": 404,
	} {
		if got := get(t, server.URL+path).StatusCode; got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
	if got := get(t, server.URL+"/apis", "Accept", "text/plain").StatusCode; got != http.StatusNotAcceptable {
		t.Errorf("text/plain: %d", got)
	}
}

func TestStorageVersionHash(t *testing.T) {
	// The value that Kubernetes documents for v1 Pods in its published discovery document.
	if got := storageVersionHash(corev1.SchemeGroupVersion.WithKind("Pod")); got != "xPOwRZ+Yhw8=" {
		t.Errorf("got %s", got)
	}
}

// TestStorageVersionHashesAreTold, or not.
func TestStorageVersionHashesAreTold(t *testing.T) {
	for _, hashes := range []bool{true, false} {
		s := New(Config{Address: "192.0.2.1:6443", Hashes: hashes})
		s.Set(table())
		list, ok := s.content.Load().plain("/api/v1", false).(*metav1.APIResourceList)
		if !ok || len(list.APIResources) == 0 {
			t.Fatal("no resources")
		}
		if told := list.APIResources[0].StorageVersionHash != ""; told != hashes {
			t.Errorf("%v: %+v", hashes, list.APIResources[0])
		}
	}
}

// TestStorageVersionHashOfACustomResource is told whatever the gate says, if the version is one that clients can ask
// for.
func TestStorageVersionHashOfACustomResource(t *testing.T) {
	for _, unserved := range []bool{true, false} {
		v1, v2 := schema.GroupVersion{Group: "example.com", Version: "v1"},
			schema.GroupVersion{Group: "example.com", Version: "v2"}
		s := New(Config{Address: "192.0.2.1:6443"})
		s.Set([]*api.Kind{{
			Name: "Widget", Resource: "widgets", Hub: v2, Custom: &api.Custom{Ending: func() bool { return false }},
			Versions: []api.Version{{GroupVersion: v1}, {GroupVersion: v2, Unserved: unserved}},
		}})
		list, ok := s.content.Load().plain("/apis/example.com/v1", false).(*metav1.APIResourceList)
		if !ok || len(list.APIResources) != 1 {
			t.Fatalf("got %v", list)
		}
		if told := list.APIResources[0].StorageVersionHash != ""; told == unserved {
			t.Errorf("not served: %t, told: %t", unserved, told)
		}
	}
}

func service(group, version string, groupPriority, versionPriority int32) *apiregistrationv1.APIService {
	s := &apiregistrationv1.APIService{Spec: apiregistrationv1.APIServiceSpec{
		Group: group, Version: version, GroupPriorityMinimum: groupPriority, VersionPriority: versionPriority,
	}}
	s.Name = version + "." + group
	return s
}

// TestArrange tells of groups in the order of their APIServices, and of what others serve. What has become of the
// APIServices of what is served here doesn't move it in the aggregated form.
func TestArrange(t *testing.T) {
	s := New(Config{Address: "192.0.2.1:6443", Hashes: true})
	s.Set(table())
	s.Arrange([]*apiregistrationv1.APIService{
		service("", "v1", 18000, 1),
		service("zoo.io", "v1", 1000, 100),
		service("empty.io", "v1", 1000, 100),
		service("autoscaling", "v1", 17500, 30), service("autoscaling", "v2", 17500, 15),
		service("wardle.io", "v1beta1", 900, 1), service("wardle.io", "v1", 1000, 2), service("wardle.io", "v2", 1, 2),
	}, []*apiregistrationv1.APIService{
		service("", "v1", 18000, 1), service("apps", "v1", 17800, 15), service("zoo.io", "v1", 20000, 100),
		service("autoscaling", "v1", 500, 15), service("autoscaling", "v2", 900, 30),
	}, nil, map[schema.GroupVersion]*apidiscoveryv2.APIVersionDiscovery{
		{Group: "zoo.io", Version: "v1"}: {Version: "v1", Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent,
			Resources: []apidiscoveryv2.APIResourceDiscovery{
				{Resource: "gadgets", ResponseKind: &metav1.GroupVersionKind{Kind: "Gadget"}},
			}},
		{Group: "wardle.io", Version: "v1"}: {Version: "v1", Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent},
		{Group: "wardle.io", Version: "v1beta1"}: {Version: "v1beta1",
			Freshness: apidiscoveryv2.DiscoveryFreshnessStale},
	})
	plain, ok := s.content.Load().plain("/apis", false).(*metav1.APIGroupList)
	if !ok {
		t.Fatal("no list of groups")
	}
	var got []string
	for _, g := range plain.Groups {
		for _, v := range g.Versions {
			got = append(got, v.GroupVersion)
		}
	}
	want := []string{
		"autoscaling/v1", "autoscaling/v2", // as their priorities say
		// by the names of the first services
		"empty.io/v1", "wardle.io/v2", "wardle.io/v1", "wardle.io/v1beta1", "zoo.io/v1",
		"apps/v1", // has no service
	}
	if !slices.Equal(got, want) {
		t.Errorf("plain: %v, want %v", got, want)
	}
	got = nil
	for _, g := range s.content.Load().aggregated(false).Items {
		for _, v := range g.Versions {
			got = append(got, g.Name+"/"+v.Version+" "+string(v.Freshness))
		}
	}
	want = []string{
		"apps/v1 Current", "wardle.io/v1 Current", "wardle.io/v1beta1 Stale", "zoo.io/v1 Current",
		"autoscaling/v2 Current", "autoscaling/v1 Current",
	}
	if !slices.Equal(got, want) {
		t.Errorf("aggregated: %v, want %v", got, want)
	}
}

// TestNotFound: a path of another server's version is not answered here, that of its group is.
func TestNotFound(t *testing.T) {
	s := New(Config{Address: "192.0.2.1:6443", Hashes: true})
	s.Set(table())
	s.Arrange([]*apiregistrationv1.APIService{service("zoo.io", "v1", 1000, 100)}, nil, nil, nil)
	for path, want := range map[string]int{
		"/apis/zoo.io": 200, "/apis/zoo.io/v1": 404, "/apis/zoo.io/v2": 404, "/apis/none.io": 404, "/api/v2": 404,
		"/apis/": 200, "/apis/apps/v1": 200,
	} {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
		beside := path == "/api/v2" // of a group that the program has
		if w.Code == http.StatusNotFound &&
			strings.Contains(w.Body.String(), "the server could not find the requested resource") != beside {
			t.Errorf("%s: %q", path, w.Body)
		}
	}
}

// TestMethods: what tells of the program's own groups is only read; what tells of all servers takes whatever comes.
func TestMethods(t *testing.T) {
	s := New(Config{Address: "192.0.2.1:6443", Hashes: true})
	s.Set(table())
	for request, want := range map[string]int{
		"POST /apis": 200, "OPTIONS /apis/apps": 200, "HEAD /apis": 200, "POST /apis/none": 404,
		"POST /apis/none/v1": 404,
		"POST /api":          405, "HEAD /api/v1": 405, "PUT /apis/apps/v1": 405, "POST /apis/apps/v9": 404,
	} {
		method, path, _ := strings.Cut(request, " ")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(method, path, nil))
		if w.Code != want {
			t.Errorf("%s: %d, want %d", request, w.Code, want)
		}
	}
}

// TestNotAcceptable: the media types that are supported depend on the server behind a path.
func TestNotAcceptable(t *testing.T) {
	s := New(Config{Address: "192.0.2.1:6443", Hashes: true})
	s.Set(table())
	for path, want := range map[string]string{
		"/api": "406: Not Acceptable", "/apis/apps/v1": "406: Not Acceptable",
		"/apis":      "only the following media types are accepted",
		"/apis/apps": "only the following media types are accepted",
	} {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Header.Set("Accept", "text/html")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != http.StatusNotAcceptable || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

// TestCompressed: large documents are compressed for clients that accept it, also where they ask for readable output.
func TestCompressed(t *testing.T) {
	var many []*api.Kind
	for i := range 1500 {
		kind := *table()[0]
		kind.Resource = fmt.Sprintf("%s%d", kind.Resource, i)
		many = append(many, &kind)
	}
	const form = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	for _, plain := range []bool{false, true} {
		s := New(Config{Address: "192.0.2.1:443", NoCompression: plain})
		s.Set(many)
		root := map[bool]string{true: "/api", false: "/apis"}[many[0].Hub.Group == ""]
		ask := func(path, encoding string) (string, bool) {
			r := httptest.NewRequest(http.MethodGet, path, nil)
			r.Header.Set("Accept", form)
			r.Header.Set("Accept-Encoding", encoding)
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			if w.Header().Get("Content-Encoding") == "" {
				return w.Body.String(), false
			}
			z, err := gzip.NewReader(w.Body)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(z)
			if err != nil {
				t.Fatal(err)
			}
			return string(text), true
		}
		for _, path := range []string{root, root + "?pretty=true"} {
			want, _ := ask(path, "identity")
			for range 2 {
				if got, zipped := ask(path, "gzip"); got != want || zipped == plain {
					t.Errorf("%s: compressed %v, the same %v", path, zipped, got == want)
				}
			}
		}
	}
}

// TestAccept chooses the aggregated form wherever it stands, and whatever weight it has.
func TestAccept(t *testing.T) {
	const form = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	for accept, want := range map[string]bool{
		form: true, form + ",application/json": true, "application/json;q=0.5," + form: true,
		"application/json," + form + ";q=0.5": true, "*/*": false, "text/html," + form: true,
		strings.Replace(form, "application/json", "*/*", 1): true, strings.Replace(form, "json", "*", 1): true,
		strings.Replace(form, "application/json", "*/json", 1): false, form + ";stream=watch": true,
		form + ";sv=v1": false,
		strings.Replace(form, "v2", "v2beta1", 1) + ",application/json": false,
	} {
		r := httptest.NewRequest(http.MethodGet, "/apis", nil)
		r.Header.Set("Accept", accept)
		if _, got, _ := wantsAggregated(r); got != want {
			t.Errorf("%s: %v", accept, got)
		}
	}
}
