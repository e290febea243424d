package connect

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/apiserver/objects/objectstest"
)

func TestLogOptions(t *testing.T) {
	for query, want := range map[string]string{
		"tailLines=0&limitBytes=1&sinceSeconds=1&container=a": "",
		"tailLines=-1":   `PodLogOptions "p" is invalid: tailLines: Invalid value: -1: must be greater than or equal to 0`,
		"limitBytes=0":   `PodLogOptions "p" is invalid: limitBytes: Invalid value: 0: must be greater than 0`,
		"sinceSeconds=0": `PodLogOptions "p" is invalid: sinceSeconds: Invalid value: 0: must be greater than 0`,
		"stream=Stdout":  `PodLogOptions "p" is invalid: stream: Forbidden: may not be specified`,
		"tailLines=abc":  `strconv.ParseInt: parsing "abc": invalid syntax`,
		"sinceTime=abc":  `parsing time "abc" as "2006-01-02T15:04:05Z07:00": cannot parse "abc" as "2006"`,
		"sinceSeconds=5&sinceTime=2026-01-01T00:00:00Z": "PodLogOptions \"p\" is invalid: []: Forbidden: " +
			"at most one of `sinceTime` or `sinceSeconds` may be specified",
	} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if _, err := logOptions("p", values); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	o, err := logOptions("p", url.Values{"follow": {"abc"}, "previous": {"false"}, "timestamps": {"0"}})
	if err != nil || !o.Follow || o.Previous || o.Timestamps {
		t.Errorf("%+v, %v", o, err)
	}
}

// TestBeforeTheKubelet: what is wrong before a kubelet is asked is told in upstream's order: pod, container, node.
func TestBeforeTheKubelet(t *testing.T) {
	container := func(name string) corev1.Container { return corev1.Container{Name: name} }
	pod := func(name string, spec corev1.PodSpec) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: spec}
	}
	store := &objectstest.Store{}
	store.Put(corev1.Resource("pods"), pod("one", corev1.PodSpec{Containers: []corev1.Container{container("a")}}))
	store.Put(corev1.Resource("pods"), pod("two", corev1.PodSpec{
		InitContainers: []corev1.Container{container("i")},
		Containers:     []corev1.Container{container("a"), container("b")},
	}))
	store.Put(corev1.Resource("pods"),
		pod("lost", corev1.PodSpec{NodeName: "nx", Containers: []corev1.Container{container("a")}}))
	c, err := New(Config{Objects: store})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	for _, verb := range []string{"exec", "attach"} {
		for at, want := range map[string]string{
			"none":              `pods "none" not found`,
			"one":               "pod one does not have a host assigned",
			"two":               "a container name must be specified for pod two, choose one of: [i a b]",
			"two?container=i":   "pod two does not have a host assigned",
			"two?container=zz":  "container zz is not valid for pod two",
			"lost?stdout=true":  `pods "nx" not found`,
			"one?container=nah": "container nah is not valid for pod one",
		} {
			r := httptest.NewRequest(http.MethodPost, "/"+at, nil)
			name := r.URL.Path[1:]
			if err := c.Handlers()["pods/"+verb](httptest.NewRecorder(), r, "ns", name, ""); err == nil ||
				err.Error() != want {
				t.Errorf("%s of %s: %v, want %s", verb, at, err, want)
			}
		}
	}
	w := httptest.NewRecorder()
	if err := c.log(w, httptest.NewRequest(http.MethodGet, "/", nil), "ns", "one"); err != nil ||
		w.Code != http.StatusNoContent {
		t.Errorf("the log of a pod without a node: %d, %v", w.Code, err)
	}
}

// TestProxyOfNothing sends a browser that asks for the root to where relative links work.
func TestProxyOfNothing(t *testing.T) {
	store := &objectstest.Store{}
	store.Put(corev1.Resource("pods"),
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"},
			Status: corev1.PodStatus{PodIP: "10.0.0.1"}})
	c, err := New(Config{Objects: store})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	r := httptest.NewRequest(http.MethodGet, "/api/v1/namespaces/ns/pods/p/proxy?q=1", nil)
	w := httptest.NewRecorder()
	if err := c.podProxy(w, r, "ns", "p", ""); err != nil || w.Code != http.StatusMovedPermanently ||
		w.Header().Get("Location") != "/api/v1/namespaces/ns/pods/p/proxy/?q=1" {
		t.Errorf("%d %v, %v", w.Code, w.Header(), err)
	}
}
