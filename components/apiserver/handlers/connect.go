package handlers

import (
	"errors"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion/queryparams"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// connection is a request that takes over its connection.
type connection struct{ *call }

// connected serves a subresource that takes over the connection. RBAC has seen the HTTP method as a verb of that
// subresource; admission sees CONNECT, with the parameters as an object.
func (c *connection) connected() error {
	if len(c.r.URL.Query()["dryRun"]) > 0 && c.Sub.Name != "log" {
		return apierrors.NewBadRequest("dryRun is not supported")
	}
	if c.Sub.Name == "log" { // though it comes as it is, the client has to take what objects come as
		if err := c.accept(); err != nil {
			return err
		}
	}
	options, err := c.connectOptions()
	if err != nil {
		return err
	}
	if options != nil {
		if err := c.admitConnect(options); err != nil {
			return err
		}
	}
	if err := c.mayConnect(); err != nil {
		return err
	}
	return c.connect(c.w, c.r, c.Namespace, c.Name, admittedPath(options))
}

// admittedPath is what a proxy is asked for, as admission left it.
func admittedPath(options runtime.Object) string {
	switch o := options.(type) {
	case *corev1.PodProxyOptions:
		return o.Path
	case *corev1.ServiceProxyOptions:
		return o.Path
	case *corev1.NodeProxyOptions:
		return o.Path
	}
	return ""
}

// mayConnect requires the verb create where another verb leads into a pod, as the GET of a WebSocket does: users with
// read access must not get a shell (KEP-5539 made the verb the same as for SPDY, which is a POST).
func (c *connection) mayConnect() error {
	if c.api.config.NoUpgradeCheck || c.Verb == "create" || c.Kind.Resource != "pods" ||
		c.api.config.Authorizer == nil {
		return nil
	}
	switch c.Sub.Name {
	case "exec", "attach", "portforward":
	default:
		return nil
	}
	decision, reason, err := c.api.config.Authorizer.Authorize(c.ctx, c.asVerb("create"))
	switch {
	case err != nil:
		return err
	case decision != authorizer.DecisionAllow:
		return apierrors.NewForbidden(c.Resource, c.Name, errors.New(reason))
	}
	return nil
}

// admitConnect shows the parameters to admission, which may change them.
func (c *connection) admitConnect(options runtime.Object) error {
	before := options.DeepCopyObject()
	if err := c.writer().AdmitConnect(c.ctx, options); err != nil {
		return err
	}
	if c.Sub.Name == "proxy" || apiequality.Semantic.DeepEqual(before, options) {
		return nil
	}
	query, err := queryparams.Convert(options)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	query.Del("apiVersion")
	query.Del("kind")
	c.r.URL.RawQuery = query.Encode()
	return nil
}

// connectOptions are the parameters of the request as an object; nil for what is no connection but a plain read.
func (c *connection) connectOptions() (runtime.Object, error) {
	q := c.r.URL.Query()
	switch c.Kind.Resource + "/" + c.Sub.Name {
	case "pods/exec":
		return &corev1.PodExecOptions{
			TypeMeta: coreType("PodExecOptions"),
			Stdin:    isSet(q, "stdin"), Stdout: isSet(q, "stdout"), Stderr: isSet(q, "stderr"), TTY: isSet(q, "tty"),
			Container: q.Get("container"), Command: q["command"],
		}, nil
	case "pods/attach":
		return &corev1.PodAttachOptions{
			TypeMeta: coreType("PodAttachOptions"),
			Stdin:    isSet(q, "stdin"), Stdout: isSet(q, "stdout"), Stderr: isSet(q, "stderr"), TTY: isSet(q, "tty"),
			Container: q.Get("container"),
		}, nil
	case "pods/portforward":
		o := &corev1.PodPortForwardOptions{TypeMeta: coreType("PodPortForwardOptions")}
		texts := q["ports"]
		if err := metav1.Convert_Slice_string_To_Slice_int32(&texts, &o.Ports, nil); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		return o, nil
	case "pods/proxy":
		return &corev1.PodProxyOptions{TypeMeta: coreType("PodProxyOptions"), Path: c.proxyPath()}, nil
	case "services/proxy":
		return &corev1.ServiceProxyOptions{TypeMeta: coreType("ServiceProxyOptions"), Path: c.proxyPath()}, nil
	case "nodes/proxy":
		return &corev1.NodeProxyOptions{TypeMeta: coreType("NodeProxyOptions"), Path: c.proxyPath()}, nil
	}
	return nil, nil
}

func coreType(kind string) metav1.TypeMeta { return metav1.TypeMeta{APIVersion: "v1", Kind: kind} }

// proxyPath is what the client wants of the one behind the proxy.
func (c *connection) proxyPath() string {
	at := ""
	if len(c.info.Parts) > 3 {
		at = "/" + strings.TrimPrefix(strings.Join(c.info.Parts[3:], "/"), "/")
	}
	if strings.HasSuffix(c.r.URL.Path, "/") {
		at += "/"
	}
	return at
}

// isSet reads a boolean parameter: whatever doesn't say no says yes.
func isSet(q url.Values, name string) bool {
	values := q[name]
	if len(values) == 0 {
		return false
	}
	text := strings.ToLower(values[0])
	return text != "false" && text != "0"
}
