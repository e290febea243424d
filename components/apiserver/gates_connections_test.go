package apiserver_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	streaming "k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/streaming/pkg/httpstream"

	"quintet.dev/quintet/components/apiserver"
	"quintet.dev/quintet/components/apiserver/aggregation/aggregationtest"
	"quintet.dev/quintet/components/apiserver/options"
	"quintet.dev/quintet/internal/certs"
)

// shouting ports answer with their number, and what they are told in capitals.
type shouting struct{}

func (shouting) PortForward(_ context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
	defer func() { _ = stream.Close() }()
	text, err := io.ReadAll(stream)
	if err == nil {
		_, err = fmt.Fprintf(stream, "%d: %s", port, strings.ToUpper(string(text)))
	}
	return err
}

// TestGatePortForwardWebsockets: with a kubelet that speaks SPDY only. Clients that prefer WebSockets still can do
// without.
func TestGatePortForwardWebsockets(t *testing.T) {
	for _, on := range []bool{true, false} {
		t.Run(fmt.Sprint(on), func(t *testing.T) {
			f := start(t, withoutServiceAccounts, gated(map[string]bool{"PortForwardWebsockets": on}))
			client := f.client(t)
			asked := make(chan string, 10)
			mux := http.NewServeMux()
			mux.HandleFunc("/portForward/{namespace}/{pod}", func(w http.ResponseWriter, r *http.Request) {
				asked <- r.Header.Get("Upgrade")
				options, err := streaming.NewV4Options(r)
				if err != nil {
					http.Error(w, err.Error(), http.StatusBadRequest)
					return
				}
				streaming.ServePortForward(w, r, shouting{}, r.PathValue("pod"), "", options, time.Minute, time.Minute,
					streaming.SupportedProtocols)
			})
			onlyNode(t, client, mux)
			at := client.CoreV1().RESTClient().Post().Namespace("default").Resource("pods").Name("p").SubResource(
				"portforward").URL()
			webSocket, err := portforward.NewSPDYOverWebsocketDialerForStreaming(at, f.as("admin"))
			if err != nil {
				t.Fatal(err)
			}
			transport, upgrader, err := spdy.RoundTripperFor(f.as("admin"))
			if err != nil {
				t.Fatal(err)
			}
			plain := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, at)

			conn, protocol, err := webSocket.Dial(portforward.PortForwardProtocolV1Name)
			switch {
			case on && (err != nil || protocol != portforward.PortForwardProtocolV1Name):
				t.Fatalf("WebSocket: protocol %q, %v", protocol, err)
			case on:
				_ = conn.Close()
			case !httpstream.IsUpgradeFailure(err):
				t.Errorf("WebSocket: %v", err)
			}
			if got := forwarded(t, portforward.NewFallbackDialerForStreaming(webSocket, plain,
				httpstream.IsUpgradeFailure)); got != "8080: HELLO" {
				t.Errorf("got %q", got)
			}
			var got []string
			for len(asked) > 0 {
				got = append(got, <-asked)
			}
			if want := map[bool][]string{true: {"SPDY/3.1", "SPDY/3.1"},
				false: {"websocket", "websocket", "SPDY/3.1"}}[on]; !slices.Equal(got, want) {
				t.Errorf("the kubelet was asked for %q, want %q", got, want)
			}
		})
	}
}

// TestGateExtendWebSocketsToKubelet: a kubelet that says that it speaks with WebSocket clients is left to, others are
// spoken SPDY to.
func TestGateExtendWebSocketsToKubelet(t *testing.T) {
	for _, c := range []struct {
		on, declared bool
		want         string
	}{{true, true, "websocket"}, {true, false, "SPDY/3.1"}, {false, true, "SPDY/3.1"}} {
		t.Run(fmt.Sprintf("%v,%v", c.on, c.declared), func(t *testing.T) {
			f := start(t, withoutServiceAccounts, gated(map[string]bool{"ExtendWebSocketsToKubelet": c.on}))
			client := f.client(t)
			asked := make(chan string, 10)
			onlyNode(t, client, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked <- r.Header.Get("Upgrade")
				http.Error(w, "no", http.StatusForbidden)
			}))
			if c.declared {
				node, err := client.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				node.Status.DeclaredFeatures = []string{"ExtendWebSocketsToKubelet"}
				if _, err := client.CoreV1().Nodes().UpdateStatus(t.Context(), node,
					metav1.UpdateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			for subresource, protocol := range map[string]string{
				"exec?command=x&stdout=true": "v5.channel.k8s.io", "attach?stdout=true": "v5.channel.k8s.io",
				"portforward": "SPDY/3.1+portforward.k8s.io",
			} {
				conn, err := tls.Dial("tcp", f.server.Addr().String(), &tls.Config{InsecureSkipVerify: true})
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintf(conn,
					"GET /api/v1/namespaces/default/pods/p/%s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer admin\r\nConnection: "+
						"Upgrade\r\nUpgrade: websocket\r\n"+
						"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: %s\r\n\r\n",
					subresource, protocol)
				select {
				case got := <-asked:
					if got != c.want {
						t.Errorf("%s: the kubelet was asked for %q", subresource, got)
					}
				case <-time.After(time.Minute):
					t.Errorf("%s: the kubelet wasn't asked", subresource)
				}
				_ = conn.Close()
			}
		})
	}
}

// forwarded is what port 8080 of a pod answers to hello.
func forwarded(t *testing.T, dialer httpstream.Dialer) string {
	t.Helper()
	stop, ready, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	forwarder, err := portforward.NewOnAddressesForStreaming(dialer, []string{"127.0.0.1"}, []string{"0:8080"}, stop,
		ready, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	go func() { done <- forwarder.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-done:
		t.Fatalf("no port is forwarded: %v", err)
	}
	defer func() {
		close(stop)
		<-done
	}()
	ports, err := forwarder.GetPorts()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", ports[0].Local))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, err = io.WriteString(conn, "hello")
	err = errors.Join(err, conn.(*net.TCPConn).CloseWrite())
	answer, readErr := io.ReadAll(conn)
	if err := errors.Join(err, readErr); err != nil {
		t.Fatal(err)
	}
	return string(answer)
}

// TestGateRemoteRequestHeaderUID: users that proxies name by UID, users that this server passes on to extension
// servers, and the headers that are published to these.
func TestGateRemoteRequestHeaderUID(t *testing.T) {
	authority, err := certs.NewAuthority("proxies")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Client("proxy")
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := errors.Join(err, os.WriteFile(file, authority.Cert, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, on := range []bool{true, false} {
		t.Run(fmt.Sprint(on), func(t *testing.T) {
			a := startAggregated(t, gated(map[string]bool{"RemoteRequestHeaderUID": on}), func(c *options.Config) {
				c.RequestHeader.ClientCAFile, c.RequestHeader.UsernameHeaders = file, []string{"X-Remote-User"}
				if on {
					c.RequestHeader.UIDHeaders = []string{"X-Id", "X-Remote-Uid"}
				}
			})
			a.register(t)
			want := func(of string) string { return map[bool]string{true: of}[on] }

			proxied := &rest.Config{Host: "https://" + a.server.Addr().String(),
				TLSClientConfig: rest.TLSClientConfig{Insecure: true, CertData: pair.Cert, KeyData: pair.Key}}
			proxied.Wrap(func(next http.RoundTripper) http.RoundTripper {
				return roundTrip(func(r *http.Request) (*http.Response, error) {
					r = r.Clone(r.Context())
					r.Header.Set("X-Remote-User", "bob")
					r.Header.Set("X-Remote-Uid", "9")
					return next.RoundTrip(r)
				})
			})
			me, err := a.clientOf(t, proxied).AuthenticationV1().SelfSubjectReviews().Create(t.Context(),
				&authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if user := me.Status.UserInfo; user.Username != "bob" || user.UID != want("9") {
				t.Errorf("who comes through a proxy is %+v", user)
			}

			if _, err := dynamic.NewForConfigOrDie(a.as("admin")).Resource(thingsOfTheZoo).Namespace("default").List(
				t.Context(), metav1.ListOptions{}); err != nil {
				t.Fatal(err)
			}
			in := a.zoo.Requests("/apis/" + aggregationtest.GroupVersion.String() + "/namespaces/default/things")
			if len(in) != 1 || in[0].Header.Get("X-Remote-User") != "admin" ||
				in[0].Header.Get("X-Remote-Uid") != want("1") {
				t.Errorf("requests: %+v", in)
			}

			told, err := a.client(t).CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(t.Context(),
				"extension-apiserver-authentication", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if got := told.Data["requestheader-uid-headers"]; told.Data["requestheader-username-headers"] == "" ||
				got != want(`["X-Id","X-Remote-Uid"]`) {
				t.Errorf("extension servers are told %v", told.Data)
			}
		})
	}
	config := options.Config{Storage: options.StorageMemory,
		FeatureGates: map[string]bool{"RemoteRequestHeaderUID": false}}
	config.RequestHeader.UIDHeaders = []string{"X-Remote-Uid"}
	if _, err := apiserver.New(config); err == nil ||
		!strings.Contains(err.Error(),
			`--requestheader-uid-headers requires the "RemoteRequestHeaderUID" feature to be enabled`) {
		t.Errorf("headers that aren't read: %v", err)
	}
}
