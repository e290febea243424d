package metricsserver

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/metrics/pkg/apis/metrics/v1beta1"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/metricsserver/usage"
)

var epoch = time.Unix(1_700_000_000, 0)

// newTestAPI knows two nodes, of which one was scraped, and pods a/x and b/y, which were, and b/z, which was not.
func newTestAPI(t *testing.T) http.Handler {
	t.Helper()
	indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	nodes := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	pods := cache.NewIndexer(cache.MetaNamespaceKeyFunc, indexers)
	add := func(to cache.Indexer, object any) {
		if err := to.Add(object); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"one", "two"} {
		add(nodes, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"is": name}}})
	}
	var state usage.State
	for i := range 2 {
		at, b := epoch.Add(time.Duration(i)*10*time.Second), usage.NewBatch()
		used := usage.Point{At: at, CPU: time.Duration(1+5*i) * time.Second, Memory: 2 << 20}
		b.Nodes["one"] = used
		for _, pod := range []types.NamespacedName{{Namespace: "a", Name: "x"}, {Namespace: "b", Name: "y"}} {
			b.Pods[pod] = map[string]usage.Point{"c": used, "d": used}
		}
		state = state.Next(b, 15*time.Second)
	}
	for _, pod := range []types.NamespacedName{
		{Namespace: "b", Name: "y"}, {Namespace: "a", Name: "x"}, {Namespace: "b", Name: "z"},
	} {
		add(pods, &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name,
			Labels: map[string]string{"in": pod.Namespace}}})
	}
	a := &api{nodes: corelisters.NewNodeLister(nodes), pods: cache.NewGenericLister(pods, v1.Resource("pods")),
		state: func() *usage.State { return &state }, clock: testingclock.NewFakePassiveClock(epoch.Add(20 * time.Second)),
		metrics: newMetrics()}
	return a.handler()
}

func ask(t *testing.T, h http.Handler, method, path, accept string) *httptest.ResponseRecorder {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), method, path, nil)
	if accept != "" {
		request.Header.Set("Accept", accept)
	}
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, request)
	return answer
}

func TestAPI(t *testing.T) {
	h := newTestAPI(t)
	for _, c := range []struct {
		method, path string
		code         int
		names        string // of the items of a list
		contains     string
	}{
		{"GET", "/apis", 200, "", `"metrics.k8s.io/v1beta1"`},
		{"GET", "/apis/metrics.k8s.io", 200, "", `"kind":"APIGroup"`},
		{"GET", prefix, 200, "",
			`"name":"pods","singularName":"","namespaced":true,"kind":"PodMetrics","verbs":["get","list"]`},
		{"GET", prefix + "/nodes", 200, "one", `"usage":{"cpu":"500m","memory":"2Mi"}`},
		{"GET", prefix + "/nodes?labelSelector=is%3Dtwo", 200, "", `"items":[]`},
		{"GET", prefix + "/nodes?labelSelector=is%3Done", 200, "one", `"window":"10s"`},
		{"GET", prefix + "/nodes/one", 200, "", `"kind":"NodeMetrics"`},
		{"GET", prefix + "/nodes/two", 404, "", `nodemetrics.metrics.k8s.io \"two\" not found`},
		{"GET", prefix + "/nodes/three", 404, "", `nodes \"three\" not found`},
		{"GET", prefix + "/pods", 200, "x y", `"kind":"PodMetricsList"`},
		{"GET", prefix + "/pods?fieldSelector=metadata.namespace%3Db", 200, "y", ""},
		{"GET", prefix + "/pods?fieldSelector=metadata.name%21%3Dy", 200, "x", ""},
		{"GET", prefix + "/pods?fieldSelector=spec.nodeName%3Done", 400, "", "not a known field selector"},
		{"GET", prefix + "/pods?labelSelector=%3D%3D", 400, "", "unable to parse"},
		{"GET", prefix + "/namespaces/b/pods", 200, "y", ""},
		{"GET", prefix + "/namespaces/b/pods?labelSelector=in%3Da", 200, "", `"items":[]`},
		{"GET", prefix + "/namespaces/b/pods/y", 200, "", `"name":"d","usage":{"cpu":"500m","memory":"2Mi"}`},
		{"GET", prefix + "/namespaces/b/pods/z", 404, "", `podmetrics.metrics.k8s.io \"b/z\" not found`},
		{"GET", prefix + "/namespaces/b/pods/n", 404, "", `pods \"b/n\" not found`},
		{"GET", prefix + "/pods?watch=true", 405, "", "MethodNotAllowed"},
		{"DELETE", prefix + "/namespaces/b/pods/y", 405, "", "MethodNotAllowed"},
		{"GET", prefix + "/others", 404, "", `"kind":"Status"`},
	} {
		answer := ask(t, h, c.method, c.path, "")
		body := answer.Body.String()
		if answer.Code != c.code || !strings.Contains(body, c.contains) {
			t.Errorf("%s %s: %d %s, want %d with %s", c.method, c.path, answer.Code, body, c.code, c.contains)
		}
		var list metav1.PartialObjectMetadataList
		if err := json.Unmarshal([]byte(body), &list); err != nil {
			t.Errorf("%s: %v", c.path, err)
		}
		var names []string
		for _, item := range list.Items {
			names = append(names, item.Name)
		}
		if got := strings.Join(names, " "); got != c.names {
			t.Errorf("%s: items %q, want %q", c.path, got, c.names)
		}
	}
}

func TestForms(t *testing.T) {
	h := newTestAPI(t)
	const table = "application/json;as=Table;v=v1;g=meta.k8s.io"
	for accept, want := range map[string]string{
		"*/*": "application/json", "application/yaml": "application/yaml", table: "application/json",
		"application/vnd.kubernetes.protobuf, */*":                        "application/vnd.kubernetes.protobuf",
		"application/json;as=Unknown;v=v1;g=meta.k8s.io,application/json": "application/json",
	} {
		answer := ask(t, h, "GET", prefix+"/pods", accept)
		if got := answer.Header().Get("Content-Type"); answer.Code != 200 || got != want {
			t.Errorf("Accept %q: %d %q", accept, answer.Code, got)
		}
	}
	if answer := ask(t, h, "GET", prefix+"/pods", "text/html"); answer.Code != http.StatusNotAcceptable {
		t.Errorf("text/html: %d", answer.Code)
	}

	answer := ask(t, h, "GET", prefix+"/namespaces/a/pods/x", "application/vnd.kubernetes.protobuf")
	types := runtime.NewScheme()
	if err := v1beta1.AddToScheme(types); err != nil {
		t.Fatal(err)
	}
	var pod v1beta1.PodMetrics
	decoder := scheme.Codecs.SupportedMediaTypes()
	for _, info := range decoder {
		if info.MediaType != runtime.ContentTypeProtobuf {
			continue
		}
		if _, _, err := info.Serializer.Decode(answer.Body.Bytes(), nil, &pod); err != nil || pod.Name != "x" ||
			len(pod.Containers) != 2 {
			t.Errorf("protobuf: %+v, %v", pod, err)
		}
	}

	var printed metav1.Table
	answer = ask(t, h, "GET", prefix+"/namespaces/a/pods", table)
	if err := json.Unmarshal(answer.Body.Bytes(), &printed); err != nil || len(printed.Rows) != 1 {
		t.Fatal(err, answer.Body)
	}
	var columns []string
	for _, column := range printed.ColumnDefinitions {
		columns = append(columns, column.Name)
	}
	if diff := cmp.Diff([]string{"Name", "cpu", "memory", "Window"}, columns); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]any{"x", "1", "4Mi", "10s"}, printed.Rows[0].Cells); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(string(printed.Rows[0].Object.Raw), "PartialObjectMetadata") {
		t.Errorf("object of the row: %s", printed.Rows[0].Object.Raw)
	}
}

func TestScrape(t *testing.T) {
	kubelet := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != usualPath {
			http.Error(w, "forbidden", http.StatusForbidden)
			return
		}
		_, _ = w.Write([]byte("node_cpu_usage_seconds_total 3\nnode_memory_working_set_bytes 5\n"))
	}))
	defer kubelet.Close()
	direct := http.RoundTripper(&http.Transport{})
	config := NewConfig()
	s := &scraper{kubelet: config.Kubelet, clock: clock.RealClock{}, metrics: newMetrics(),
		client: &http.Client{Transport: plain{direct, kubelet.Listener.Addr().String()}}}
	node := func(name, address, path string) *v1.Node {
		return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{pathAnnotation: path}},
			Status: v1.NodeStatus{Addresses: []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: address}}}}
	}
	got := s.all(t.Context(), []*v1.Node{
		node("good", "10.0.0.1", ""), node("bad", "10.0.0.2", "/other"), node("lost", "", ""),
	})
	if len(got.Nodes) != 1 || got.Nodes["good"].Memory != 5 {
		t.Errorf("got %+v", got)
	}
}

// plain leads all requests to one address, without TLS.
type plain struct {
	http.RoundTripper
	host string
}

func (p plain) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host = "http", p.host
	return p.RoundTripper.RoundTrip(r)
}

func TestTarget(t *testing.T) {
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: v1.NodeStatus{
		Addresses: []v1.NodeAddress{
			{Type: v1.NodeInternalIP, Address: "10.0.0.1"}, {Type: v1.NodeHostName, Address: "host"}},
		DaemonEndpoints: v1.NodeDaemonEndpoints{KubeletEndpoint: v1.DaemonEndpoint{Port: 77}},
	}}
	for want, k := range map[string]Kubelet{
		"https://host:10250/metrics/resource":  {Port: 10250, AddressTypes: []string{"Hostname", "InternalIP"}},
		"https://10.0.0.1:77/metrics/resource": {Port: 10250, AddressTypes: []string{"InternalIP"}, UseNodeStatusPort: true},
	} {
		if got, err := k.target(node); err != nil || got.String() != want {
			t.Errorf("%v: %v, %v", k, got, err)
		}
	}
	k := Kubelet{Port: 1, AddressTypes: []string{"ExternalIP"}}
	if got, err := k.target(node); err == nil {
		t.Errorf("got %v", got)
	}
}

func TestFlagsThatCannotBe(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"--metric-resolution":               func(c *Config) { c.Resolution = time.Millisecond },
		"--kubelet-request-timeout":         func(c *Config) { c.Kubelet.Timeout = 0 },
		"--kubelet-port":                    func(c *Config) { c.Kubelet.Port = 0 },
		"--secure-port":                     func(c *Config) { c.SecurePort = 70000 },
		"--kubelet-insecure-tls":            func(c *Config) { c.Kubelet.InsecureTLS, c.Kubelet.CAFile = true, "x" },
		"--kubelet-client-key":              func(c *Config) { c.Kubelet.CertFile = "x" },
		"there is no type \"Other\"":        func(c *Config) { c.Kubelet.AddressTypes = []string{"Other"} },
		"--kubelet-preferred-address-types": func(c *Config) { c.Kubelet.AddressTypes = nil },
		"--node-selector":                   func(c *Config) { c.NodeSelector = "==" },
		"give --kubeconfig":                 func(*Config) {},
	} {
		config := NewConfig()
		change(config)
		if _, err := New(*config); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
