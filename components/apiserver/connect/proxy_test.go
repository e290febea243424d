package connect

import (
	"context"
	"io"
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

	"quintet.dev/quintet/components/apiserver/objects/objectstest"
)

// A Service's proxy reaches any of its pods, by the name of a port or its number, and nothing that is no pod.
func TestServiceProxy(t *testing.T) {
	answering := func(text string) int32 {
		s := httptest.NewServer(http.HandlerFunc(
			func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(text + " " + r.Host)) }))
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
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
			Status: corev1.PodStatus{PodIPs: []corev1.PodIP{{IP: "127.0.0.1"}}}}
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
		subset(answering("no pod"), "web", nil), subset(answering("elsewhere"), "web", refer("other", "a")),
		subset(answering("gone"), "web", refer("ns", "c")),
		subset(answering("other port"), "other", refer("ns", "a")),
	}})
	//lint:ignore SA1019 see above
	empty := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "empty"}}
	store.Put(corev1.Resource("endpoints"), empty)
	c, err := New(Config{Objects: store})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	ask := func(name string) (string, error) {
		r := httptest.NewRequest(http.MethodGet, "http://the.server/api/v1/namespaces/ns/services/"+name+"/proxy/x",
			nil)
		w := httptest.NewRecorder()
		err := c.serviceProxy(w, r, "ns", name, "/x")
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
		"s":         `no endpoints available for service "s"`,
		"s:no":      `no endpoints available for service "s:no"`,
		"s:81":      `no service port 81 found for service "s"`,
		"empty:web": `no endpoints available for service "empty"`,
		"t:web":     `services "t" not found`,
		"t:80":      `services "t" not found`,
	} {
		if _, err := ask(name); err == nil || err.Error() != want ||
			!(apierrors.IsNotFound(err) || apierrors.IsServiceUnavailable(err)) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := ask(strings.Repeat("s:", 4)); !apierrors.IsBadRequest(err) {
		t.Errorf("got %v", err)
	}
}

// TestNodeProxy: a node is reached at its kubelet's port and others, unless its address is this machine's own.
func TestNodeProxy(t *testing.T) {
	kubelet := httptest.NewTLSServer(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_,
				_ = w.Write([]byte("kubelet " + r.URL.Path))
		}))
	defer kubelet.Close()
	store := &objectstest.Store{}
	for name, address := range map[string]string{"n": "10.0.0.1", "self": "127.0.0.1", "link": "169.254.0.1"} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
		node.Status.DaemonEndpoints.KubeletEndpoint.Port = 10250
		store.Put(corev1.Resource("nodes"), node)
	}
	c, err := New(Config{Objects: store, AddressTypes: []string{string(corev1.NodeInternalIP)},
		Dial: redirect(kubelet)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	c.plain.Proxy = nil
	const refused = "address not allowed"
	for name, want := range map[string]string{
		"n": "kubelet /x", "n:10250": "kubelet /x", "https:n:1": "kubelet /x",
		"self": refused, "self:10250": refused, "self:1": refused, "https:self:1": refused, "link": refused,
	} {
		w := httptest.NewRecorder()
		if err := c.nodeProxy(w, httptest.NewRequest(http.MethodGet, "/proxy", nil), "", name, "/x"); err != nil {
			_, _ = w.WriteString(err.Error())
		}
		if got := w.Body.String(); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

// redirect connects to a server, whatever is asked for.
func redirect(to *httptest.Server) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, to.Listener.Addr().String())
	}
}

// onlyPod is a connector to a pod that a server stands for; dialed are the addresses that it was looked for at.
func onlyPod(t *testing.T, server *httptest.Server) (c *Connector, dialed chan string) {
	t.Helper()
	store := &objectstest.Store{}
	store.Put(corev1.Resource("pods"),
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"},
			Status: corev1.PodStatus{PodIP: "10.0.0.1"}})
	dialed = make(chan string, 10)
	c, err := New(Config{Objects: store, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		dialed <- address
		return redirect(server)(ctx, network, address)
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	c.plain.Proxy = nil
	return c, dialed
}

// TestPodProxyPlace: the port follows the scheme where the pod tells none, the path is cleaned, and HTTP/2 is spoken
// with servers that know it.
func TestPodProxyPlace(t *testing.T) {
	tell := http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(r.Proto + " " + r.RequestURI)) })
	bare, secure := httptest.NewServer(tell), httptest.NewUnstartedServer(tell)
	secure.EnableHTTP2 = true
	secure.StartTLS()
	t.Cleanup(bare.Close)
	t.Cleanup(secure.Close)
	for _, want := range []struct {
		server       *httptest.Server
		name, path   string
		dialed, seen string
	}{
		{bare, "p", "/a//b/../c/", "10.0.0.1:80", "HTTP/1.1 /a/c/?q=1"},
		{bare, "p:8080", "/../x", "10.0.0.1:8080", "HTTP/1.1 /x?q=1"},
		{secure, "https:p:", "/x", "10.0.0.1:443", "HTTP/2.0 /x?q=1"},
	} {
		c, dialed := onlyPod(t, want.server)
		w := httptest.NewRecorder()
		if err := c.podProxy(w, httptest.NewRequest(http.MethodGet, "/proxy?q=1", nil), "ns", want.name,
			want.path); err != nil {
			t.Errorf("%s: %v", want.name, err)
			continue
		}
		if at := <-dialed; at != want.dialed {
			t.Errorf("%s: dialed %s", want.name, at)
		}
		if got := w.Body.String(); got != want.seen {
			t.Errorf("%s: got %q, want %q", want.name, got, want.seen)
		}
	}
}

// TestUpgradeWithoutQuery: what a connection is for can't be told to a backend by who may only read.
func TestUpgradeWithoutQuery(t *testing.T) {
	backend := httptest.NewServer(
		http.HandlerFunc(func(w http.ResponseWriter,
			r *http.Request) {
			http.Error(w, r.RequestURI, http.StatusTeapot)
		}))
	t.Cleanup(backend.Close)
	c, _ := onlyPod(t, backend)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := c.podProxy(w, r, "ns", "p", "/exec/x"); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(front.Close)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, front.URL+"/proxy?command=id", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "websocket")
	answer, err := front.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if body, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusTeapot ||
		string(body) != "/exec/x\n" {
		t.Errorf("%d: the backend saw %q, %v", answer.StatusCode, body, err)
	}
}
