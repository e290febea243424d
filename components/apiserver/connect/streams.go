package connect

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/proxy"
	streamproxy "k8s.io/apiserver/pkg/util/proxy"
	proxymetrics "k8s.io/apiserver/pkg/util/proxy/metrics"
	"k8s.io/streaming/pkg/httpstream/wsstream"

	"quintet.dev/quintet/components/apiserver/handlers/answer"
)

// exec runs a command in a container.
func (c *Connector) exec(w http.ResponseWriter, r *http.Request, namespace, name string) error {
	return c.stream(w, r, namespace, name, "exec", r.URL.Query())
}

// attach joins the main process of a container.
func (c *Connector) attach(w http.ResponseWriter, r *http.Request, namespace, name string) error {
	return c.stream(w, r, namespace, name, "attach", r.URL.Query())
}

// stream joins the client's standard streams with those of a container, through its kubelet. The client speaks SPDY or
// WebSocket; where the kubelet doesn't know its WebSocket protocol, it is spoken here and SPDY to the kubelet.
func (c *Connector) stream(w http.ResponseWriter, r *http.Request, namespace, name, verb string,
	query url.Values) error {
	streams := streamproxy.Options{
		Stdin: isTrue(query, "stdin"), Stdout: isTrue(query, "stdout"), Stderr: isTrue(query, "stderr"),
		Tty: isTrue(query, "tty"),
	}
	if streams.Tty && streams.Stderr {
		streams.Stderr = false // a terminal has one output
	}
	pod, err := c.pod(r, namespace, name)
	if err != nil {
		return err
	}
	container, err := chooseContainer(pod, query.Get("container"))
	if err != nil {
		return err
	}
	host, speaks, err := c.running(r, pod)
	if err != nil {
		return err
	}
	to := url.Values{}
	set := func(name string, on bool) {
		if on {
			to.Set(name, "1")
		}
	}
	set("input", streams.Stdin)
	set("output", streams.Stdout)
	set("error", streams.Stderr)
	set("tty", streams.Tty)
	for _, word := range query["command"] {
		to.Add("command", word)
	}
	at := &url.URL{Scheme: "https", Host: host, RawQuery: to.Encode(),
		Path: fmt.Sprintf("/%s/%s/%s/%s", verb, pod.Namespace, pod.Name, container)}
	countStream(r, verb, speaks)
	handler := c.upgrade(at, true)
	if !speaks {
		handler = streamproxy.NewTranslatingHandler(handler, c.translator(at, streams),
			wsstream.IsWebSocketRequestWithStreamCloseProtocol)
	}
	handler.ServeHTTP(w, r)
	return nil
}

// countStream counts a connection to a pod, by whether its kubelet speaks with WebSocket clients itself.
func countStream(r *http.Request, verb string, speaks bool) {
	by := "translated_at_apiserver"
	if speaks {
		by = "proxied_to_kubelet"
	}
	proxymetrics.IncWebSocketStreamingRequest(r.Context(), verb, by)
}

// translator speaks SPDY to a kubelet for WebSocket clients.
func (c *Connector) translator(at *url.URL, streams streamproxy.Options) *streamproxy.StreamTranslatorHandler {
	return streamproxy.NewStreamTranslatorHandler(at, c.kubelet(), c.maxBytes, streams)
}

// portForward carries connections to ports of a pod.
func (c *Connector) portForward(w http.ResponseWriter, r *http.Request, namespace, name string) error {
	pod, err := c.pod(r, namespace, name)
	if err != nil {
		return err
	}
	host, speaks, err := c.running(r, pod)
	if err != nil {
		return err
	}
	query, err := portQuery(r.URL.Query()["ports"])
	if err != nil {
		return err
	}
	at := &url.URL{Scheme: "https", Host: host, RawQuery: query.Encode(),
		Path: fmt.Sprintf("/portForward/%s/%s", pod.Namespace, pod.Name)}
	handler := c.upgrade(at, true)
	if !c.plainForward {
		countStream(r, "portforward", speaks)
		if !speaks {
			handler = streamproxy.NewTranslatingHandler(handler, streamproxy.NewTunnelingHandler(handler),
				wsstream.IsWebSocketRequestWithTunnelingProtocol)
		}
	}
	handler.ServeHTTP(w, r)
	return nil
}

// portQuery asks a kubelet for ports, of which each text names one or several.
func portQuery(texts []string) (url.Values, error) {
	var ports []int32
	if err := metav1.Convert_Slice_string_To_Slice_int32(&texts, &ports, nil); err != nil {
		return nil, badRequest("%v", err)
	}
	if len(ports) == 0 {
		return url.Values{}, nil
	}
	words := make([]string, len(ports))
	for i, p := range ports {
		words[i] = strconv.Itoa(int(p))
	}
	return url.Values{corev1.PortHeader: {strings.Join(words, ",")}}, nil
}

// extendsWebSockets is declared by nodes whose kubelet speaks the protocols of WebSocket clients itself.
const extendsWebSockets = "ExtendWebSocketsToKubelet"

// running finds the kubelet of a pod that has a node, and whether it speaks with WebSocket clients itself.
func (c *Connector) running(r *http.Request, pod *corev1.Pod) (host string, speaks bool, err error) {
	if pod.Spec.NodeName == "" {
		return "", false, badRequest("pod %s does not have a host assigned", pod.Name)
	}
	node, err := c.nodeOf(r, pod)
	if err != nil {
		return "", false, err
	}
	host, err = c.kubeletAt(node)
	return host, !c.translateAll && slices.Contains(node.Status.DeclaredFeatures, extendsWebSockets), err
}

// upgrade passes a request on to a kubelet; required refuses requests that don't ask for an upgrade.
func (c *Connector) upgrade(at *url.URL, required bool) http.Handler {
	h := proxy.NewUpgradeAwareHandler(at, c.kubelet(), false, required, responder{})
	h.UseLocationHost, h.MaxBytesPerSec = true, c.maxBytes
	return h
}

// responder answers what went wrong before a connection stood.
type responder struct{}

// Error implements proxy.ErrorResponder.
func (responder) Error(w http.ResponseWriter, r *http.Request, err error) {
	answer.Error(w, r, err)
}
