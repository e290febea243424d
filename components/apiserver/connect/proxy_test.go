package connect

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/request"

	"quintet.dev/quintet/components/apiserver/objects/objectstest"
)

// A Service's proxy reaches any of its pods, by the name of a port or its number, and nothing that is no pod.
func TestServiceProxy(t *testing.T) {
	answering := func(text string) int32 {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(text + " " + r.Host)) }))
		t.Cleanup(s.Close)
		at, err := url.Parse(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		port, err := strconv.ParseInt(at.Port(), 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		return int32(port)
	}
	pod := func(name string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Status: corev1.PodStatus{PodIPs: []corev1.PodIP{{IP: "127.0.0.1"}}}}
	}
	//lint:ignore SA1019 a Service's proxy goes by its Endpoints, as upstream's
	subset := func(port int32, name string, target *corev1.ObjectReference) corev1.EndpointSubset {
		//lint:ignore SA1019 see above
		return corev1.EndpointSubset{
			Addresses: []corev1.EndpointAddress{{IP: "127.0.0.1", TargetRef: target}},
			Ports:     []corev1.EndpointPort{{Name: name, Port: port}},
		}
	}
	refer := func(namespace, name string) *corev1.ObjectReference {
		return &corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: name}
	}
	meta := metav1.ObjectMeta{Namespace: "ns", Name: "s"}
	store := &objectstest.Store{}
	store.Put(corev1.Resource("services"), &corev1.Service{
		ObjectMeta: meta, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "web", Port: 80}}},
	})
	store.Put(corev1.Resource("pods"), pod("a"))
	store.Put(corev1.Resource("pods"), pod("b"))
	//lint:ignore SA1019 see above
	store.Put(corev1.Resource("endpoints"), &corev1.Endpoints{ObjectMeta: meta, Subsets: []corev1.EndpointSubset{
		subset(answering("a"), "web", refer("ns", "a")), subset(answering("b"), "web", refer("ns", "b")),
		subset(answering("no pod"), "web", nil), subset(answering("elsewhere"), "web", refer("other", "a")), subset(answering("gone"), "web", refer("ns", "c")),
		subset(answering("other port"), "other", refer("ns", "a")),
	}})
	c, err := New(Config{Objects: store})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	ask := func(name string) (string, error) {
		r := httptest.NewRequest(http.MethodGet, "http://the.server/api/v1/namespaces/ns/services/"+name+"/proxy/x", nil)
		r = r.WithContext(request.WithRequestInfo(r.Context(), &request.RequestInfo{Parts: []string{"services", name, "proxy", "x"}}))
		w := httptest.NewRecorder()
		err := c.serviceProxy(w, r, "ns", name)
		return w.Body.String(), err
	}
	seen := map[string]bool{}
	for range 64 { // that one of two is never chosen has a probability of 2^-63
		for _, name := range []string{"s:web", "http:s:80"} {
			body, err := ask(name)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			seen[body] = true
		}
	}
	if len(seen) != 2 || !seen["a the.server"] || !seen["b the.server"] {
		t.Errorf("got %v", seen)
	}
	for name, want := range map[string]string{
		"s":     `no endpoints available for service "s"`,
		"s:no":  `no endpoints available for service "s:no"`,
		"s:81":  `no service port 81 found for service "s"`,
		"t:web": `services "t" not found`,
		"t:80":  `services "t" not found`,
	} {
		if _, err := ask(name); err == nil || err.Error() != want || !(apierrors.IsNotFound(err) || apierrors.IsServiceUnavailable(err)) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := ask(strings.Repeat("s:", 4)); !apierrors.IsBadRequest(err) {
		t.Errorf("got %v", err)
	}
}

// TestNodeProxy: at the address of a node only its kubelet is reached if the address is this machine's own.
func TestNodeProxy(t *testing.T) {
	kubelet := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte("kubelet " + r.URL.Path)) }))
	defer kubelet.Close()
	at := kubelet.Listener.Addr().(*net.TCPAddr)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: at.IP.String()}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(at.Port)
	store := &objectstest.Store{}
	store.Put(corev1.Resource("nodes"), node)
	c, err := New(Config{Objects: store, AddressTypes: []string{string(corev1.NodeInternalIP)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	for name, want := range map[string]string{
		"n": "kubelet /x", "n:" + strconv.Itoa(at.Port): "kubelet /x", "n:1": "address not allowed", "https:n:1": "address not allowed",
	} {
		r := httptest.NewRequest(http.MethodGet, "http://the.server/api/v1/nodes/"+name+"/proxy/x", nil)
		r = r.WithContext(request.WithRequestInfo(r.Context(), &request.RequestInfo{Parts: []string{"nodes", name, "proxy", "x"}}))
		w := httptest.NewRecorder()
		if err := c.nodeProxy(w, r, "", name); err != nil {
			_, _ = w.WriteString(err.Error())
		}
		if got := w.Body.String(); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}
