package apiserver_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/websocket"
	admissionv1 "k8s.io/api/admission/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	streaming "k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"
)

// shout answers what it reads in capitals, and fails when told so.
type shout struct{}

func (shout) ExecInContainer(_ context.Context, _, _, container string, cmd []string, in io.Reader, out,
	_ io.WriteCloser, _ bool, _ <-chan streaming.TerminalSize, _ time.Duration) error {
	if cmd[0] == "fail" {
		return utilexec.CodeExitError{Err: io.EOF, Code: 7}
	}
	text, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, container+": "+strings.ToUpper(string(text)))
	return err
}

// fakeKubelet serves a log and a shell, and is the only node. What is read of a log from some seconds on has no end:
// that the reader is gone is told to the channel.
func fakeKubelet(t *testing.T, client kubernetes.Interface) <-chan struct{} {
	t.Helper()
	gone := make(chan struct{}, 10)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("pod") == "broken" {
			http.Error(w, "no log here", http.StatusNotFound)
			return
		}
		if r.URL.Query().Get("previous") != "" {
			http.Error(w, `previous terminated container "c" in pod "p" not found`, http.StatusBadRequest)
			return
		}
		if r.URL.Query().Get("limitBytes") != "" {
			http.Error(w, "the disk is gone", http.StatusInternalServerError)
			return
		}
		_, _ = io.WriteString(w, r.PathValue("container")+" said "+r.URL.RawQuery+"\n")
		if r.URL.Query().Get("sinceSeconds") != "" {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			gone <- struct{}{}
		}
	})
	mux.HandleFunc("/exec/{namespace}/{pod}/{container}", func(w http.ResponseWriter, r *http.Request) {
		options, err := streaming.NewOptions(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		streaming.ServeExec(w, r, shout{}, r.PathValue("pod"), "", r.PathValue("container"), r.URL.Query()["command"],
			options,
			time.Minute, time.Minute, streaming.SupportedStreamingProtocols)
	})
	mux.HandleFunc("GET /stats/",
		func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "stats "+r.URL.Path) })
	onlyNode(t, client, mux)
	return gone
}

// onlyNode makes a handler the kubelet of a node with pods.
func onlyNode(t *testing.T, client kubernetes.Interface, kubelet http.Handler) {
	t.Helper()
	server := httptest.NewTLSServer(kubelet)
	t.Cleanup(server.Close)
	host, portText, _ := net.SplitHostPort(server.Listener.Addr().String())
	port, _ := strconv.Atoi(portText)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	made, err := client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	made.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: host}}
	made.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(port)
	if _, err := client.CoreV1().Nodes().UpdateStatus(t.Context(), made, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	for name, on := range map[string]string{"p": "n1", "broken": "n1", "waiting": ""} {
		if _, err := client.CoreV1().Pods("default").Create(t.Context(), pod(name, on),
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLogsOverWebSocket: a log comes as messages, in the protocol that is asked for. One that goes on ends with the
// client.
func TestLogsOverWebSocket(t *testing.T) {
	f := start(t, withoutServiceAccounts)
	gone := fakeKubelet(t, f.client(t))
	admin, err := rest.TLSConfigFor(f.as("admin"))
	if err != nil {
		t.Fatal(err)
	}
	dial := func(query string, protocols ...string) (*websocket.Conn, error) {
		host := f.server.Addr().String()
		config, err := websocket.NewConfig("wss://"+host+"/api/v1/namespaces/default/pods/p/log"+query, "https://"+host)
		if err != nil {
			return nil, err
		}
		config.TlsConfig, config.Protocol = admin, protocols
		config.Header.Set("Authorization", "Bearer admin")
		ws, err := websocket.DialConfig(config)
		if err == nil {
			err = ws.SetDeadline(time.Now().Add(time.Minute))
		}
		return ws, err
	}
	for protocol, want := range map[string]string{"": "c said \n", "binary.k8s.io": "c said \n",
		"base64.binary.k8s.io": "YyBzYWlkIAo="} {
		ws, err := dial("", slices.DeleteFunc([]string{protocol}, func(p string) bool { return p == "" })...)
		if err != nil {
			t.Errorf("%q: %v", protocol, err)
			continue
		}
		var messages []string
		for err == nil {
			var message string
			if err = websocket.Message.Receive(ws, &message); err == nil {
				messages = append(messages, message)
			}
		}
		_ = ws.Close()
		if !slices.Equal(messages, []string{"", want}) || !errors.Is(err, io.EOF) {
			t.Errorf("%q: messages %q, %v", protocol, messages, err)
		}
	}
	if _, err := dial("", "v9.k8s.io"); err == nil {
		t.Error("a protocol that nobody knows is spoken")
	}
	ws, err := dial("?follow=true&sinceSeconds=5", "binary.k8s.io")
	if err != nil {
		t.Fatal(err)
	}
	var message []byte
	for len(message) == 0 {
		if err := websocket.Message.Receive(ws, &message); err != nil {
			t.Fatal(err)
		}
	}
	_ = ws.Close()
	select {
	case <-gone:
	case <-time.After(time.Minute):
		t.Error("the log is still read, though nobody is there for it")
	}
}

func TestLogs(t *testing.T) {
	client := start(t, withoutServiceAccounts).client(t)
	fakeKubelet(t, client)
	lines := int64(3)
	read := func(name string, o *corev1.PodLogOptions) (string, error) {
		stream, err := client.CoreV1().Pods("default").GetLogs(name, o).Stream(t.Context())
		if err != nil {
			return "", err
		}
		defer stream.Close()
		text, err := io.ReadAll(stream)
		return string(text), err
	}
	if text, err := read("p", &corev1.PodLogOptions{TailLines: &lines, Follow: true}); err != nil ||
		text != "c said follow=true&tailLines=3\n" {
		t.Errorf("got %q, %v", text, err)
	}
	plain := client.CoreV1().Pods("default").GetLogs("p", &corev1.PodLogOptions{}).SetHeader("Accept",
		"text/plain").Do(t.Context())
	if err := plain.Error(); !apierrors.IsNotAcceptable(err) ||
		err.Error() != "only the following media types are accepted: application/json, application/yaml, "+
			"application/vnd.kubernetes.protobuf" {
		t.Errorf("as text alone: %v", err)
	}
	if text, err := read("waiting", &corev1.PodLogOptions{}); err != nil || text != "" {
		t.Errorf("of a pod without a node: %q, %v", text, err)
	}
	if _, err := read("p", &corev1.PodLogOptions{Container: "none"}); !apierrors.IsBadRequest(err) {
		t.Errorf("of no container: %v", err)
	}
	if _, err := read("broken", &corev1.PodLogOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("what the kubelet refuses: %v", err)
	}
	_, err := read("p", &corev1.PodLogOptions{Previous: true})
	if !apierrors.IsBadRequest(err) ||
		!strings.Contains(err.Error(), `previous terminated container "c" in pod "p" not found`) {
		t.Errorf("of no earlier container: %v", err)
	}
	_, err = read("p", &corev1.PodLogOptions{LimitBytes: &lines})
	if !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), "Internal error occurred: the disk is gone") {
		t.Errorf("of a kubelet in trouble: %v", err)
	}
}

func TestExec(t *testing.T) {
	f := start(t, withoutServiceAccounts)
	client := f.client(t)
	fakeKubelet(t, client)
	run := func(t *testing.T, spdy bool, cmd string, stdin io.Reader) (string, error) {
		at := client.CoreV1().RESTClient().Get().Namespace("default").Resource("pods").Name("p").SubResource("exec").
			VersionedParams(&corev1.PodExecOptions{Command: []string{cmd}, Stdin: stdin != nil, Stdout: true},
				scheme.ParameterCodec).URL()
		var executor remotecommand.Executor
		var err error
		if spdy {
			executor, err = remotecommand.NewSPDYExecutor(f.as("admin"), "POST", at)
		} else {
			executor, err = remotecommand.NewWebSocketExecutor(f.as("admin"), "GET", at.String())
		}
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		err = executor.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdin: stdin, Stdout: &out})
		return out.String(), err
	}
	for name, spdy := range map[string]bool{"SPDY": true, "WebSocket": false} {
		t.Run(name, func(t *testing.T) {
			if out, err := run(t, spdy, "shout", strings.NewReader("hello")); err != nil || out != "c: HELLO" {
				t.Errorf("got %q, %v", out, err)
			}
			// Without input: a kubelet that ends a connection with some of it unread resets it, and its last words can
			// get lost.
			_, err := run(t, spdy, "fail", nil)
			if exit, ok := err.(utilexec.ExitError); !ok || exit.ExitStatus() != 7 {
				t.Errorf("exit code: %v", err)
			}
		})
	}
}

// TestNodeProxy: a node that says that it is where the server is can't be reached through it.
func TestNodeProxy(t *testing.T) {
	client := start(t, withoutServiceAccounts).client(t)
	fakeKubelet(t, client)
	out, err := client.CoreV1().RESTClient().Get().AbsPath("/api/v1/nodes/n1/proxy/stats/summary").DoRaw(t.Context())
	if !apierrors.IsBadRequest(err) || !strings.Contains(string(out), `"address not allowed"`) {
		t.Errorf("got %q, %v", out, err)
	}
}

// TestProxyAsAdmitted: what a webhook makes of the path is what is asked for. Without one, a client is sent to where
// links work.
func TestProxyAsAdmitted(t *testing.T) {
	f, h := start(t, withoutServiceAccounts), newHooks(t)
	h.answer["path"] = func(_ *admissionv1.AdmissionRequest, response *admissionv1.AdmissionResponse) {
		kind := admissionv1.PatchTypeJSONPatch
		response.PatchType, response.Patch = &kind, []byte(`[{"op":"remove","path":"/path"}]`)
	}
	client := f.client(t)
	made, err := client.CoreV1().Pods("default").Create(t.Context(), pod("p", ""), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	made.Status.PodIP, made.Status.PodIPs = "10.0.0.1", []corev1.PodIP{{IP: "10.0.0.1"}}
	if _, err := client.CoreV1().Pods("default").UpdateStatus(t.Context(), made, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	installMutating(t, client, mutating("path", h.at("path"), "pods/proxy"))
	transport, err := rest.TransportFor(f.as("admin"))
	if err != nil {
		t.Fatal(err)
	}
	at := "https://" + f.server.Addr().String() + "/api/v1/namespaces/default/pods/p/proxy/x"
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusMovedPermanently ||
		answer.Header.Get("Location") != "/api/v1/namespaces/default/pods/p/proxy/x/" {
		t.Errorf("%s to %q", answer.Status, answer.Header.Get("Location"))
	}
}

// TestShellNeedsCreate: a WebSocket into a pod is a GET, but takes the same permission as the POST of SPDY; so does any
// other GET.
func TestShellNeedsCreate(t *testing.T) {
	f := start(t, withoutServiceAccounts)
	client := f.client(t)
	fakeKubelet(t, client)
	grant := func(verbs ...string) {
		t.Helper()
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "shell"},
			Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods/exec"}, Verbs: verbs}}}
		if _, err := client.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err == nil {
			binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "shell"},
				RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "shell"},
				Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "alice"}}}
			if _, err := client.RbacV1().ClusterRoleBindings().Create(t.Context(), binding,
				metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		} else if _, err := client.RbacV1().ClusterRoles().Update(
			t.Context(), role, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	run := func() error {
		at := client.CoreV1().RESTClient().Get().Namespace("default").Resource("pods").Name("p").SubResource("exec").
			VersionedParams(&corev1.PodExecOptions{Command: []string{"shout"}, Stdin: true, Stdout: true},
				scheme.ParameterCodec).URL()
		executor, err := remotecommand.NewWebSocketExecutor(f.as("alice"), "GET", at.String())
		if err != nil {
			t.Fatal(err)
		}
		return executor.StreamWithContext(t.Context(),
			remotecommand.StreamOptions{Stdin: strings.NewReader("x"), Stdout: io.Discard})
	}
	grant("get")
	allowed := func(verb string) bool {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: "alice",
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Resource: "pods", Subresource: "exec",
				Namespace: "default"}}}
		out, err := client.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
		return err == nil && out.Status.Allowed
	}
	waitUntil(t, func() bool { return allowed("get") })
	const refused = `pods "p" is forbidden`
	if err := run(); err == nil || !strings.Contains(err.Error(), refused) {
		t.Errorf("with get only: %v", err)
	}
	plain := f.clientOf(t, f.as("alice")).CoreV1().RESTClient().Get().Namespace("default").Resource("pods").Name(
		"p").SubResource("exec")
	if err := plain.Do(t.Context()).Error(); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), refused) {
		t.Errorf("a plain GET with get only: %v", err)
	}
	grant("get", "create")
	waitUntil(t, func() bool { return allowed("create") })
	if err := run(); err != nil {
		t.Errorf("with create: %v", err)
	}
}

// waitUntil polls, as what decides follows the store at a small distance.
func waitUntil(t *testing.T, done func() bool) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, time.Minute, true,
		func(context.Context) (bool, error) {
			return done(), nil
		}); err != nil {
		t.Fatal(err)
	}
}
