package hooks

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	clocktesting "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// streams answers every command with its first argument as exit code.
type streams struct{ runtime.Streams }

func (streams) Exec(ctx context.Context, _ string, options runtime.ExecOptions) (int, error) {
	switch options.Command[0] {
	case "hang":
		<-ctx.Done()
		return 0, ctx.Err()
	case "fail":
		_, err := io.WriteString(options.Stderr, strings.Repeat("x", 2*maxOutput))
		return 3, err
	case "broken":
		return 0, errors.New("no engine")
	}
	return 0, nil
}

func TestExec(t *testing.T) {
	r := &Runner{Streams: streams{}}
	for command, want := range map[string]string{"ok": "", "fail": "exited with 3", "broken": "no engine",
		"hang": `command timed out: "hang" timed out after 0s`} {
		ctx, cancel := context.WithCancel(t.Context())
		if command == "hang" {
			ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
		}
		err := r.Exec(ctx, Target{}, &v1.ExecAction{Command: []string{command}})
		cancel()
		if (err == nil) != (want == "") || (err != nil && !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", command, err)
		}
		var exit *ExitError
		if errors.As(err, &exit) != (command == "fail") || exit != nil && len(exit.Output) != maxOutput {
			t.Errorf("%s: %v", command, err)
		}
		var unknown *UnknownError
		if errors.As(err, &unknown) != (command == "broken") {
			t.Errorf("%s: known: %v", command, err)
		}
	}
}

func TestHTTP(t *testing.T) {
	var elsewhere string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/bad":
			w.WriteHeader(http.StatusBadRequest)
		case "/moved":
			http.Redirect(w, r, "/ok", http.StatusFound)
		case "/moved-bad":
			http.Redirect(w, r, "/bad", http.StatusFound)
		case "/away":
			http.Redirect(w, r, elsewhere, http.StatusFound)
		case "/headers":
			if r.UserAgent() != "kube-probe/1.2" || r.Host != "example" || r.Header.Get("X-A") != "b" ||
				r.Header.Get("Accept-Encoding") != "" {
				w.WriteHeader(http.StatusTeapot)
			}
		}
	}))
	defer server.Close()
	elsewhere = "http://absent.invalid/bad"
	address := server.Listener.Addr().(*net.TCPAddr)
	r := &Runner{Version: "1.2"}
	target := Target{PodIP: address.IP.String(),
		Container: &v1.Container{Ports: []v1.ContainerPort{{Name: "web", ContainerPort: int32(address.Port)}}}}
	for path, ok := range map[string]bool{"/ok": true, "/bad": false, "/moved": true, "/moved-bad": false,
		"/away": true, "/headers": true} {
		warning, err := r.HTTP(t.Context(), target, &v1.HTTPGetAction{Path: path, Port: intstr.FromString("web"),
			HTTPHeaders: []v1.HTTPHeader{{Name: "host", Value: "example"}, {Name: "x-a", Value: "b"}}})
		if (err == nil) != ok {
			t.Errorf("%s: %v", path, err)
		}
		if (warning != "") != (path == "/away") ||
			warning != "" && !strings.HasPrefix(warning, "Probe terminated redirects, Response body: <a href=") {
			t.Errorf("%s: warning %q", path, warning)
		}
	}
	if _, err := r.HTTP(t.Context(), target, &v1.HTTPGetAction{Port: intstr.FromString("none")}); err == nil ||
		!strings.Contains(err.Error(), `"none"`) {
		t.Errorf("unknown port: %v", err)
	}
}

// Hooks ignore the response: any status will do, compressed or not, and without TLS where there is none.
func TestHTTPHooks(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.UserAgent()+" "+r.Header.Get("Accept-Encoding")+r.Header.Get("Authorization"))
		w.WriteHeader(http.StatusInternalServerError)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	defer server.Close()
	address := server.Listener.Addr().(*net.TCPAddr)
	r := &Runner{Version: "1.2"}
	for _, scheme := range []v1.URIScheme{v1.URISchemeHTTP, v1.URISchemeHTTPS} {
		err := r.Lifecycle(t.Context(), Target{PodIP: address.IP.String(),
			Container: &v1.Container{}}, &v1.LifecycleHandler{
			HTTPGet: &v1.HTTPGetAction{
				Port: intstr.FromInt32(int32(address.Port)), Scheme: scheme,
				HTTPHeaders: []v1.HTTPHeader{{Name: "X-A", Value: "b"}},
			},
		})
		if err != nil {
			t.Errorf("%s: %v", scheme, err)
		}
	}
	if !slices.Equal(asked, []string{"kube-lifecycle/1.2 gzip", "kube-lifecycle/1.2 gzip"}) {
		t.Errorf("asked as %q", asked)
	}
	server.Close()
	err := r.Lifecycle(t.Context(), Target{PodIP: address.IP.String(),
		Container: &v1.Container{}}, &v1.LifecycleHandler{
		HTTPGet: &v1.HTTPGetAction{Port: intstr.FromInt32(int32(address.Port))},
	})
	if err == nil {
		t.Error("a server that is gone was told")
	}
}

func TestTCPAndGRPC(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	state := health.NewServer()
	state.SetServingStatus("sick", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	server := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(server, state)
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	port := int32(listener.Addr().(*net.TCPAddr).Port)
	r := &Runner{Version: "1.2"}
	target := Target{PodIP: "127.0.0.1", Container: &v1.Container{}}
	if err := r.TCP(t.Context(), target, &v1.TCPSocketAction{Port: intstr.FromInt32(port)}); err != nil {
		t.Errorf("TCP: %v", err)
	}
	for service, ok := range map[string]bool{"": true, "sick": false, "unknown": false} {
		if err := r.GRPC(t.Context(), target, &v1.GRPCAction{Port: port, Service: &service}); (err == nil) != ok {
			t.Errorf("service %q: %v", service, err)
		}
	}
}

func TestSleep(t *testing.T) {
	now := clocktesting.NewFakeClock(time.Unix(0, 0))
	r := &Runner{Clock: now}
	done := make(chan error, 1)
	go func() {
		done <- r.Lifecycle(t.Context(), Target{}, &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 5}})
	}()
	for !now.HasWaiters() {
		time.Sleep(time.Millisecond)
	}
	now.Step(5 * time.Second)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := r.Lifecycle(t.Context(), Target{}, &v1.LifecycleHandler{}); err == nil {
		t.Error("a hook without an action is no error")
	}
}
