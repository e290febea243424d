// Package hooks runs the actions of probes and lifecycle hooks: exec, HTTP, TCP and gRPC.
package hooks

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// maxOutput bounds what is kept of an answer.
const maxOutput = 10 << 10

// Runner runs actions. It is safe for concurrent use.
type Runner struct {
	Streams runtime.Streams
	Clock   clock.Clock
	// Version is that of Kubernetes, as major.minor; requests carry it in their User-Agent.
	Version string
}

// UnknownError tells that an action could not be tried, so that nothing is known of the container.
type UnknownError struct{ Err error }

func (e *UnknownError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UnknownError) Unwrap() error { return e.Err }

// ExitError tells that a command ended with another code than 0, and what it wrote.
type ExitError struct {
	Command []string
	Code    int
	Output  string
}

func (e *ExitError) Error() string {
	return fmt.Sprintf("command %q exited with %d: %s", strings.Join(e.Command, " "), e.Code, e.Output)
}

// Target is the container an action is about.
type Target struct {
	ID        string
	PodIP     string
	Container *v1.Container
}

// Exec runs a command in the container. The error is an *ExitError if the command failed, an *UnknownError if it could
// not be run.
func (r *Runner) Exec(ctx context.Context, t Target, action *v1.ExecAction) error {
	var out limited
	began := time.Now()
	code, err := r.Streams.Exec(ctx, t.ID, runtime.ExecOptions{Command: action.Command, Stdout: &out, Stderr: &out})
	deadline, _ := ctx.Deadline()
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("command timed out: %q timed out after %v",
			strings.Join(action.Command, " "), deadline.Sub(began).Round(time.Second))
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return &UnknownError{err}
	case code != 0:
		return &ExitError{Command: action.Command, Code: code, Output: out.String()}
	}
	return nil
}

// limited keeps the first bytes written to it. The engine writes from one goroutine. The buffer is not embedded:
// its ReadFrom and WriteString know no limit.
type limited struct{ kept bytes.Buffer }

func (l *limited) String() string { return l.kept.String() }

func (l *limited) Write(p []byte) (int, error) {
	if room := maxOutput - l.kept.Len(); room > 0 {
		l.kept.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

// HTTP sends a GET, as probes do; an answer from 200 to 399 is success. A redirect to another host, which is not
// followed, is success with a warning.
func (r *Runner) HTTP(ctx context.Context, t Target, action *v1.HTTPGetAction) (warning string, err error) {
	request, err := r.request(ctx, t, action, "kube-probe/")
	if err != nil {
		return "", &UnknownError{err}
	}
	response, err := newClient(false).Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxOutput))
	if err != nil && len(body) == 0 {
		return "", err
	}
	if response.StatusCode < http.StatusOK || response.StatusCode >= http.StatusBadRequest {
		return "", fmt.Errorf("HTTP probe failed with statuscode: %d", response.StatusCode)
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		return "Probe terminated redirects, Response body: " + string(body), nil
	}
	return "", nil
}

// newClient makes a client for one request; it accepts compressed responses only if compression is set.
func newClient(compression bool) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			TLSClientConfig:    &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // documented: probes skip verification
			DisableKeepAlives:  true,
			DisableCompression: !compression,
		},
		CheckRedirect: sameHost,
	}
}

// notify sends a GET, as hooks do: any answer is success. A server without TLS is retried over HTTP.
func (r *Runner) notify(ctx context.Context, t Target, action *v1.HTTPGetAction) error {
	request, err := r.request(ctx, t, action, "kube-lifecycle/")
	if err != nil {
		return err
	}
	client := newClient(true)
	response, err := client.Do(request)
	if errors.Is(err, http.ErrSchemeMismatch) {
		plain := request.Clone(ctx)
		plain.URL.Scheme = "http"
		plain.Header.Del("Authorization")
		response, err = client.Do(plain)
	}
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, io.LimitReader(response.Body, maxOutput))
	return err
}

func (r *Runner) request(ctx context.Context, t Target, action *v1.HTTPGetAction, agent string) (*http.Request, error) {
	port, err := Port(action.Port, t.Container)
	if err != nil {
		return nil, err
	}
	host := action.Host
	if host == "" {
		host = t.PodIP
	}
	target, err := url.Parse(action.Path)
	if err != nil { // then it is a path as it is
		target = &url.URL{Path: action.Path}
	}
	target.Scheme = strings.ToLower(string(action.Scheme))
	if target.Scheme == "" {
		target.Scheme = "http"
	}
	target.Host = net.JoinHostPort(host, strconv.Itoa(port))
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("User-Agent", agent+r.Version)
	request.Header.Set("Accept", "*/*")
	replaced := map[string]bool{}
	for _, header := range action.HTTPHeaders {
		name := http.CanonicalHeaderKey(header.Name)
		if name == "Host" {
			request.Host = header.Value
			continue
		}
		if !replaced[name] {
			request.Header.Del(name)
			replaced[name] = true
		}
		if header.Value != "" || (name != "Accept" && name != "User-Agent") {
			request.Header.Add(name, header.Value)
		}
	}
	return request, nil
}

// sameHost follows redirects on the same host only; elsewhere the redirect itself is the answer.
func sameHost(request *http.Request, via []*http.Request) error {
	if request.URL.Hostname() != via[0].URL.Hostname() {
		return http.ErrUseLastResponse
	}
	if len(via) >= 10 {
		return errors.New("stopped after 10 redirects")
	}
	return nil
}

// TCP opens a connection.
func (r *Runner) TCP(ctx context.Context, t Target, action *v1.TCPSocketAction) error {
	port, err := Port(action.Port, t.Container)
	if err != nil {
		return &UnknownError{err}
	}
	host := action.Host
	if host == "" {
		host = t.PodIP
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return err
	}
	return conn.Close()
}

// GRPC asks the health service (https://github.com/grpc/grpc/blob/master/doc/health-checking.md).
func (r *Runner) GRPC(ctx context.Context, t Target, action *v1.GRPCAction) error {
	address := net.JoinHostPort(t.PodIP, strconv.Itoa(int(action.Port)))
	conn, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithUserAgent("kube-probe/"+r.Version))
	if err != nil {
		return err
	}
	defer conn.Close()
	service := ""
	if action.Service != nil {
		service = *action.Service
	}
	answer, err := grpc_health_v1.NewHealthClient(conn).Check(metadata.NewOutgoingContext(ctx, metadata.MD{}),
		&grpc_health_v1.HealthCheckRequest{Service: service})
	if err != nil {
		return err
	}
	if answer.Status != grpc_health_v1.HealthCheckResponse_SERVING {
		return fmt.Errorf("service unhealthy (responded with %q)", answer.Status)
	}
	return nil
}

// Lifecycle runs a postStart or preStop hook.
func (r *Runner) Lifecycle(ctx context.Context, t Target, handler *v1.LifecycleHandler) error {
	switch {
	case handler.Exec != nil:
		return r.Exec(ctx, t, handler.Exec)
	case handler.HTTPGet != nil:
		return r.notify(ctx, t, handler.HTTPGet)
	case handler.TCPSocket != nil:
		return r.TCP(ctx, t, handler.TCPSocket)
	case handler.Sleep != nil:
		select {
		case <-r.Clock.After(time.Duration(handler.Sleep.Seconds) * time.Second):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return errors.New("hook has no action")
}

// Port resolves a port that may be named.
func Port(port intstr.IntOrString, c *v1.Container) (int, error) {
	number := port.IntValue()
	if port.Type == intstr.String {
		for _, p := range c.Ports {
			if p.Name == port.StrVal {
				return int(p.ContainerPort), nil
			}
		}
	}
	if number <= 0 || number > 65535 {
		return 0, fmt.Errorf("port %q is neither a number nor a named port of container %s", port.String(), c.Name)
	}
	return number, nil
}
