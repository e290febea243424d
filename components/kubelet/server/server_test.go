package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	utilexec "k8s.io/client-go/util/exec"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/kubelet/runtime"
	"quintet.dev/quintet/components/kubelet/runtime/hollow"
	"quintet.dev/quintet/internal/health"
	"quintet.dev/quintet/internal/zpages"
)

// engine is a hollow engine whose containers answer.
type engine struct {
	*hollow.Engine
	dialed chan int32
	echo   string
}

func (e *engine) Logs(_ context.Context, id string, options runtime.LogOptions, stdout, stderr io.Writer) error {
	if stdout != nil {
		fmt.Fprintf(stdout, "out of %s follow=%v\n", id, options.Follow)
	}
	if stderr != nil {
		fmt.Fprintln(stderr, "err")
	}
	return nil
}

func (e *engine) Exec(_ context.Context, id string, options runtime.ExecOptions) (int, error) {
	switch options.Command[0] {
	case "cat":
		_, err := io.Copy(options.Stdout, options.Stdin)
		return 0, err
	case "fail":
		fmt.Fprint(options.Stderr, "broken")
		return 7, nil
	case "size":
		size := <-options.Resize
		fmt.Fprintf(options.Stdout, "%dx%d", size.Width, size.Height)
		return 0, nil
	}
	return 0, errors.New("no such command")
}

func (e *engine) Pod(context.Context, types.UID) (runtime.Pod, error) {
	return runtime.Pod{Sandboxes: []runtime.Sandbox{{ID: "sandbox", State: runtime.Running}}}, nil
}

func (e *engine) Dial(_ context.Context, _ string, port int32) (net.Conn, error) {
	e.dialed <- port
	return net.Dial("tcp", e.echo)
}

type podList []*v1.Pod

func (p podList) List() []*v1.Pod { return p }

func (p podList) Find(namespace, name string) *v1.Pod {
	for _, pod := range p {
		if pod.Namespace == namespace && pod.Name == name {
			return pod
		}
	}
	return nil
}

func runningPod() *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "uid"},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "c"}}},
		Status: v1.PodStatus{Phase: v1.PodRunning, ContainerStatuses: []v1.ContainerStatus{
			{Name: "c", ContainerID: "hollow://now", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}},
				LastTerminationState: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ContainerID: "hollow://before"}}},
			{Name: "w", State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}},
		}},
	}
}

func serve(t *testing.T, guard *Guard) (*httptest.Server, *engine) {
	t.Helper()
	e := &engine{Engine: hollow.New(hollow.Options{Clock: clock.RealClock{}}), dialed: make(chan int32, 1)}
	s := New(Config{Pods: podList{runningPod()}, Engine: e, Clock: clock.RealClock{}, NodeName: "node", Guard: guard,
		Debug: true, IdleTimeout: time.Minute,
		Program: zpages.New("kubelet", time.Now,
			func() map[string]string { return map[string]string{"node-ip": "10.0.0.1"} })})
	server := httptest.NewUnstartedServer(s)
	server.TLS = &tls.Config{NextProtos: []string{"http/1.1"}}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server, e
}

func open() *Guard { return &Guard{Anonymous: true, AlwaysAllow: true} }

func get(t *testing.T, server *httptest.Server, path string) (int, string) {
	t.Helper()
	response, err := server.Client().Get(server.URL + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

func TestLogs(t *testing.T) {
	server, _ := serve(t, open())
	for path, want := range map[string]struct {
		code int
		body string
	}{
		"/containerLogs/ns/p/c":                   {200, "out of now follow=false\nerr\n"},
		"/containerLogs/ns/p/c?follow=true":       {200, "out of now follow=true\nerr\n"},
		"/containerLogs/ns/p/c?previous=true":     {200, "out of before follow=false\nerr\n"},
		"/containerLogs/ns/p/c?stream=Stderr":     {200, "err\n"},
		"/containerLogs/ns/p/c?limitBytes=3":      {200, "out"},
		"/containerLogs/ns/p/c?limitBytes=0":      {422, "limitBytes"},
		"/containerLogs/ns/p/c?tailLines=x":       {422, "tailLines"},
		"/containerLogs/ns/p/c?sinceTime=soon":    {422, "sinceTime"},
		"/containerLogs/ns/p/w":                   {400, "trying and failing to pull image"},
		"/containerLogs/ns/p/w?previous=true":     {400, "previous terminated container"},
		"/containerLogs/ns/p/absent":              {400, "not available"},
		"/containerLogs/ns/absent/c":              {404, "not found"},
		"/healthz":                                {200, "ok"},
		"/statusz":                                {200, "/statusz"},
		"/flagz":                                  {200, "node-ip"},
		"/exec/ns/p/w?command=x&output=1&error=1": {404, "container not found"},
	} {
		if code, body := get(t, server, path); code != want.code || !strings.Contains(body, want.body) {
			t.Errorf("%s: %d %q, want %d %q", path, code, body, want.code, want.body)
		}
	}
}

func TestPods(t *testing.T) {
	server, _ := serve(t, open())
	for _, path := range []string{"/pods", "/pods/", "/runningpods/"} {
		_, body := get(t, server, path)
		var list v1.PodList
		if err := json.Unmarshal([]byte(body), &list); err != nil || len(list.Items) != 1 || list.Kind != "PodList" {
			t.Errorf("%s: %v, %s", path, err, body)
		}
	}
}

// executors support both protocols that clients use.
func executors(t *testing.T, server *httptest.Server, query string) map[string]remotecommand.Executor {
	t.Helper()
	config := &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	target, err := url.Parse(server.URL + "/exec/ns/p/c?" + query)
	if err != nil {
		t.Fatal(err)
	}
	overSPDY, err := remotecommand.NewSPDYExecutor(config, http.MethodPost, target)
	if err != nil {
		t.Fatal(err)
	}
	overWebSocket, err := remotecommand.NewWebSocketExecutorForProtocols(config, http.MethodGet, target.String(),
		"v4.channel.k8s.io")
	if err != nil {
		t.Fatal(err)
	}
	return map[string]remotecommand.Executor{"SPDY": overSPDY, "WebSocket": overWebSocket}
}

func TestExec(t *testing.T) {
	server, _ := serve(t, open())
	for protocol, executor := range executors(t, server, "command=fail&output=1&error=1") {
		var stdout, stderr bytes.Buffer
		err := executor.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: &stdout, Stderr: &stderr})
		var exit utilexec.CodeExitError
		if !errors.As(err, &exit) || exit.Code != 7 || stderr.String() != "broken" {
			t.Errorf("%s: %v, stderr %q", protocol, err, stderr.String())
		}
	}
	executor := executors(t, server, "command=cat&input=1&output=1")["SPDY"]
	var stdout bytes.Buffer
	if err := executor.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdin: strings.NewReader("through"),
		Stdout: &stdout}); err != nil || stdout.String() != "through" {
		t.Errorf("cat: %q, %v", stdout.String(), err)
	}
}

type sizes chan *remotecommand.TerminalSize

func (s sizes) Next() *remotecommand.TerminalSize { return <-s }

func TestTerminalSize(t *testing.T) {
	server, _ := serve(t, open())
	for protocol, executor := range executors(t, server, "command=size&input=1&output=1&tty=1") {
		queue := make(sizes, 1)
		queue <- &remotecommand.TerminalSize{Width: 80, Height: 24}
		var stdout bytes.Buffer
		err := executor.StreamWithContext(t.Context(),
			remotecommand.StreamOptions{Stdin: strings.NewReader(""), Stdout: &stdout, Tty: true,
				TerminalSizeQueue: queue})
		if err != nil || stdout.String() != "80x24" {
			t.Errorf("%s: %q, %v", protocol, stdout.String(), err)
		}
		close(queue)
	}
}

func TestPortForward(t *testing.T) {
	server, e := serve(t, open())
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer echo.Close()
	go func() {
		conn, err := echo.Accept()
		if err == nil {
			_, _ = io.Copy(conn, conn)
			_ = conn.Close()
		}
	}()
	e.echo = echo.Addr().String()
	target, err := url.Parse(server.URL + "/portForward/ns/p")
	if err != nil {
		t.Fatal(err)
	}
	transport, upgrader, err := spdy.RoundTripperFor(&rest.Config{Host: server.URL,
		TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
	if err != nil {
		t.Fatal(err)
	}
	stop, ready := make(chan struct{}), make(chan struct{})
	forwarder, err := portforward.NewOnAddresses(spdy.NewDialer(upgrader, &http.Client{Transport: transport},
		http.MethodPost, target), []string{"127.0.0.1"}, []string{"0:8080"}, stop, ready, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- forwarder.ForwardPorts() }()
	<-ready
	ports, err := forwarder.GetPorts()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", ports[0].Local))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "hello")
	_ = conn.(*net.TCPConn).CloseWrite()
	answer, err := io.ReadAll(conn)
	if err != nil || string(answer) != "hello" {
		t.Errorf("got %q, %v", answer, err)
	}
	if port := <-e.dialed; port != 8080 {
		t.Errorf("dialed port %d", port)
	}
	close(stop)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestGuardAsksTheAPIServer(t *testing.T) {
	client := fake.NewClientset()
	var asked []string
	client.PrependReactor("create", "subjectaccessreviews", func(action clienttesting.Action) (bool,
		kruntime.Object, error) {
		review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview)
		a := review.Spec.ResourceAttributes
		asked = append(asked, fmt.Sprintf("%s %s %s/%s %s", review.Spec.User, a.Verb, a.Resource,
			a.Subresource, a.Name))
		review.Status.Allowed = a.Subresource == "stats" || a.Subresource == "pods"
		return true, review, nil
	})
	server, _ := serve(t, &Guard{Client: client, Anonymous: true, NodeName: "node", AllowTTL: time.Minute,
		DenyTTL: time.Minute})
	for _, step := range []struct {
		path string
		code int
		asks int
	}{
		{"/stats/summary", 200, 1}, {"/stats/summary", 200, 0}, {"/pods", 200, 1}, {"/healthz", 403, 2},
		{"/healthz", 403, 0},
		{"/containerLogs/ns/p/c", 403, 0}, // proxy is known to be refused
	} {
		before := len(asked)
		if code, body := get(t, server, step.path); code != step.code || len(asked)-before != step.asks {
			t.Errorf("%s: %d %s, %d questions; want %d and %d", step.path, code, body, len(asked)-before,
				step.code, step.asks)
		}
	}
	if asked[0] != "system:anonymous get nodes/stats node" {
		t.Errorf("asked %q", asked[0])
	}
	closed, _ := serve(t, &Guard{Client: client, AlwaysAllow: true})
	if code, _ := get(t, closed, "/pods"); code != http.StatusUnauthorized {
		t.Errorf("without credentials: %d", code)
	}
}

// Users with the same name and groups may differ in UID or extra, and so in what the API server authorizes.
func TestAnswersAreKeptByUser(t *testing.T) {
	alice := &user.DefaultInfo{Name: "alice", UID: "1", Groups: []string{"g"},
		Extra: map[string][]string{"a": {"x"}, "b": {"y"}}}
	keys := map[string]bool{}
	for _, change := range []func(*user.DefaultInfo){
		func(*user.DefaultInfo) {}, func(u *user.DefaultInfo) { u.UID = "2" },
		func(u *user.DefaultInfo) { u.Extra = map[string][]string{"a": {"x"}} },
		func(u *user.DefaultInfo) { u.Groups = nil },
	} {
		other := *alice
		change(&other)
		keys[accessKey(&other, "get", "proxy")] = true
	}
	if len(keys) != 4 {
		t.Errorf("%d keys of 4 users: %v", len(keys), keys)
	}
}

func TestConfigz(t *testing.T) {
	for debug, want := range map[bool]int{true: http.StatusOK, false: http.StatusNotFound} {
		server := httptest.NewTLSServer(New(Config{
			Pods: podList{}, Clock: clock.RealClock{}, Guard: open(), Debug: debug,
			Configuration: &kubeletconfig.KubeletConfiguration{MaxPods: 7},
		}))
		code, body := get(t, server, "/configz")
		if code != want || want == http.StatusOK &&
			(!strings.HasPrefix(body, `{"kubeletconfig":{`) || !strings.Contains(body, `"maxPods":7`)) {
			t.Errorf("debug %v: %d %s", debug, code, body)
		}
		server.Close()
	}
	if got := subresources("/configz"); !slices.Equal(got, []string{"configz", "proxy"}) {
		t.Errorf("asks for %v", got)
	}
}

// KEP-2862 and https://kubernetes.io/docs/reference/access-authn-authz/kubelet-authn-authz/.
func TestSubresources(t *testing.T) {
	for path, want := range map[string]string{
		"/stats/summary": "stats", "/metrics": "metrics", "/metrics/cadvisor": "metrics", "/logs/": "log",
		"/logs/dockerd.log": "log", "/checkpoint/ns/p/c": "checkpoint", "/statusz": "statusz", "/flagz": "configz",
		"/healthz":          "healthz,proxy",
		"/healthz/syncloop": "healthz,proxy", "/configz": "configz,proxy", "/pods": "pods,proxy",
		"/pods/": "pods,proxy", "/runningpods/": "pods,proxy", "/exec/ns/p/c": "proxy", "/containerLogs/ns/p/c": "proxy",
		"/debug/pprof/": "proxy", "/podsecrets": "proxy", "/": "proxy",
	} {
		if got := strings.Join(subresources(path), ","); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

func TestHealth(t *testing.T) {
	var failure error
	checks := []health.Check{{Name: "syncloop", Probe: func(*http.Request) error { return failure }}}
	server := httptest.NewTLSServer(New(Config{Pods: podList{}, Clock: clock.RealClock{}, Guard: open(), Health: checks}))
	defer server.Close()
	for _, step := range []struct {
		failure error
		path    string
		code    int
		body    string
	}{
		{nil, "/healthz", 200, "ok"}, {nil, "/healthz/ping", 200, "ok"}, {nil, "/healthz/syncloop", 200, "ok"},
		{nil, "/healthz?verbose", 200, "[+]syncloop ok"}, {errors.New("PLEG"), "/healthz", 500, "[-]syncloop failed"},
		{errors.New("PLEG"), "/healthz/syncloop", 500, "PLEG"}, {errors.New("PLEG"), "/healthz/ping", 200, "ok"},
		{nil, "/healthz/absent", 404, ""},
	} {
		failure = step.failure
		if code, body := get(t, server, step.path); code != step.code || !strings.Contains(body, step.body) {
			t.Errorf("%v, %s: %d %s", step.failure, step.path, code, body)
		}
	}
}

// What lets people into pods and the process is served only with enableDebuggingHandlers.
func TestDebuggingHandlers(t *testing.T) {
	for debug, want := range map[bool]string{true: "404 container absent does not exist\n404 checkpointing of ns/p/c failed",
		false: "404 404 page not found\n404 404 page not found"} {
		server := httptest.NewTLSServer(New(Config{Pods: podList{runningPod()}, Clock: clock.RealClock{}, Guard: open(),
			Debug: debug}))
		var got []string
		for _, path := range []string{"/checkpoint/ns/p/absent", "/checkpoint/ns/p/c"} {
			answer, err := server.Client().Post(server.URL+path, "", nil)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(answer.Body)
			if err != nil {
				t.Fatal(err)
			}
			_ = answer.Body.Close()
			got = append(got, fmt.Sprint(answer.StatusCode, " ", strings.TrimSpace(string(body))))
		}
		if all := strings.Join(got, "\n"); !strings.HasPrefix(all, want) {
			t.Errorf("debug %v: %s", debug, all)
		}
		if code, _ := get(t, server, "/debug/pprof/heap"); (code == http.StatusOK) != debug {
			t.Errorf("debug %v: profiles %d", debug, code)
		}
		server.Close()
	}
}

func TestSystemLogs(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "boot.log"), []byte("it began"), 0o600); err != nil {
		t.Fatal(err)
	}
	for logs, want := range map[string]int{dir: http.StatusOK, "": http.StatusNotFound} {
		s := New(Config{Pods: podList{}, Clock: clock.RealClock{}, Guard: open(), Debug: true, LogDir: logs})
		server := httptest.NewTLSServer(s)
		for path, content := range map[string]string{"/logs/": "boot.log", "/logs/boot.log": "it began"} {
			if code, body := get(t, server, path); code != want || want == http.StatusOK &&
				!strings.Contains(body, content) {
				t.Errorf("logs of %q, %s: %d %s", logs, path, code, body)
			}
		}
		server.Close()
	}
}
