// Package hooks asks containers something, or tells them: the actions that probes and lifecycle hooks are made of.
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
	// Agent is the User-Agent of HTTP requests.
	Agent string
}

// Target is the container an action is about.
type Target struct {
	ID        string
	PodIP     string
	Container *v1.Container
}

// Exec runs a command in the container; output is what it wrote, err tells that it failed.
func (r *Runner) Exec(ctx context.Context, t Target, action *v1.ExecAction) (output string, err error) {
	var out limited
	code, err := r.Streams.Exec(ctx, t.ID, runtime.ExecOptions{Command: action.Command, Stdout: &out, Stderr: &out})
	if ctx.Err() != nil {
		return out.String(), fmt.Errorf("command %q timed out", strings.Join(action.Command, " "))
	}
	if err != nil {
		return out.String(), err
	}
	if code != 0 {
		return out.String(), fmt.Errorf("command %q exited with %d: %s", strings.Join(action.Command, " "), code, out.String())
	}
	return out.String(), nil
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

// HTTP sends a GET; an answer from 200 to 399 is success.
func (r *Runner) HTTP(ctx context.Context, t Target, action *v1.HTTPGetAction) (string, error) {
	request, err := r.request(ctx, t, action)
	if err != nil {
		return "", err
	}
	client := &http.Client{
		Transport: &http.Transport{
			TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // documented: probes skip verification
			DisableKeepAlives: true,
		},
		CheckRedirect: sameHost,
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxOutput))
	if err != nil && len(body) == 0 {
		return "", err
	}
	if response.StatusCode < http.StatusOK || response.StatusCode >= http.StatusBadRequest {
		return string(body), fmt.Errorf("HTTP probe failed with statuscode: %d", response.StatusCode)
	}
	return string(body), nil
}

func (r *Runner) request(ctx context.Context, t Target, action *v1.HTTPGetAction) (*http.Request, error) {
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
	request.Header.Set("User-Agent", r.Agent)
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
		return err
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
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithUserAgent(r.Agent))
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
		_, err := r.Exec(ctx, t, handler.Exec)
		return err
	case handler.HTTPGet != nil:
		_, err := r.HTTP(ctx, t, handler.HTTPGet)
		return err
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
