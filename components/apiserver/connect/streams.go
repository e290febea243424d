package connect

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/proxy"
	"k8s.io/apimachinery/pkg/util/validation/field"
	streamproxy "k8s.io/apiserver/pkg/util/proxy"
	"k8s.io/streaming/pkg/httpstream/wsstream"

	"quintet.dev/quintet/components/apiserver/handlers/answer"
)

// exec runs a command in a container.
func (c *Connector) exec(w http.ResponseWriter, r *http.Request, namespace, name string) error {
	query := r.URL.Query()
	if len(query["command"]) == 0 || query.Get("command") == "" {
		return apierrors.NewInvalid(schema.GroupKind{Kind: "PodExecOptions"}, name, field.ErrorList{field.Required(field.NewPath("command"), "")})
	}
	return c.stream(w, r, namespace, name, "exec", query)
}

// attach joins the main process of a container.
func (c *Connector) attach(w http.ResponseWriter, r *http.Request, namespace, name string) error {
	return c.stream(w, r, namespace, name, "attach", r.URL.Query())
}

// stream joins the client's standard streams with those of a container, through its kubelet. The client speaks SPDY or
// WebSocket; where kubelets don't know its WebSocket protocol, it is spoken here and SPDY to the kubelet.
func (c *Connector) stream(w http.ResponseWriter, r *http.Request, namespace, name, verb string, query url.Values) error {
	streams := streamproxy.Options{
		Stdin: isTrue(query, "stdin"), Stdout: isTrue(query, "stdout"), Stderr: isTrue(query, "stderr"), Tty: isTrue(query, "tty"),
	}
	if !streams.Stdin && !streams.Stdout && !streams.Stderr {
		return badRequest("at least one of stdin, stdout, stderr must be specified")
	}
	if streams.Tty && streams.Stderr {
		streams.Stderr = false // a terminal has one output
	}
	pod, host, err := c.running(r, namespace, name)
	if err != nil {
		return err
	}
	container, err := chooseContainer(pod, query.Get("container"))
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
	streamproxy.NewTranslatingHandler(
		c.upgrade(at, true),
		streamproxy.NewStreamTranslatorHandler(at, c.kubelet, 0, streams),
		wsstream.IsWebSocketRequestWithStreamCloseProtocol,
	).ServeHTTP(w, r)
	return nil
}

// portForward carries connections to ports of a pod.
func (c *Connector) portForward(w http.ResponseWriter, r *http.Request, namespace, name string) error {
	pod, host, err := c.running(r, namespace, name)
	if err != nil {
		return err
	}
	query := url.Values{}
	for _, text := range r.URL.Query()["ports"] {
		if _, err := strconv.ParseUint(text, 10, 16); err != nil {
			return badRequest("port %q is not a number between 1 and 65535", text)
		}
		query.Add("port", text)
	}
	at := &url.URL{Scheme: "https", Host: host, RawQuery: query.Encode(),
		Path: fmt.Sprintf("/portForward/%s/%s", pod.Namespace, pod.Name)}
	plain := c.upgrade(at, true)
	streamproxy.NewTranslatingHandler(plain, streamproxy.NewTunnelingHandler(plain), wsstream.IsWebSocketRequestWithTunnelingProtocol).ServeHTTP(w, r)
	return nil
}

// running finds a pod that has a node, and its kubelet.
func (c *Connector) running(r *http.Request, namespace, name string) (*corev1.Pod, string, error) {
	pod, err := c.pod(r, namespace, name)
	if err != nil {
		return nil, "", err
	}
	if pod.Spec.NodeName == "" {
		return nil, "", badRequest("pod %s does not have a host assigned", name)
	}
	host, err := c.kubeletOf(r, pod)
	return pod, host, err
}

// upgrade passes a request on to a kubelet; required refuses requests that don't ask for an upgrade.
func (c *Connector) upgrade(at *url.URL, required bool) http.Handler {
	h := proxy.NewUpgradeAwareHandler(at, c.kubelet, false, required, responder{})
	h.UseLocationHost, h.MaxBytesPerSec = true, c.maxBytes
	return h
}

// responder answers what went wrong before a connection stood.
type responder struct{}

// Error implements proxy.ErrorResponder.
func (responder) Error(w http.ResponseWriter, r *http.Request, err error) {
	if _, ok := err.(apierrors.APIStatus); !ok {
		err = apierrors.NewInternalError(err)
	}
	answer.Error(w, r, err)
}
