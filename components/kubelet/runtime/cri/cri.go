// Package cri runs pods on an engine that speaks CRI v1, the interface of Kubernetes to container engines
// (https://kubernetes.io/docs/concepts/containers/cri/), such as containerd. The engine holds the namespaces of pods,
// sets their network up by CNI and writes their logs; labels and annotations tell which container is what, so that a
// kubelet that starts finds what an earlier one left.
package cri

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// Options say which engine to use, and how.
type Options struct {
	// Endpoint is the socket of the engine, such as unix:///run/containerd/containerd.sock; ImageEndpoint is that of its
	// images, "" if it is the same.
	Endpoint, ImageEndpoint string
	Node                    string // sandboxes and containers are labelled with it
	// LogDir has a directory for each pod, into which the engine writes the output of its containers.
	LogDir string
	// ProfileDir gets the seccomp profiles of containers, which an engine reads from files.
	ProfileDir string
	// CgroupDriver is that of an engine that does not tell its own.
	CgroupDriver string
	// Observe, if set, is told of each operation, by the name that upstream's kubelet has for it.
	Observe func(operation string, took time.Duration, err error)
}

// Engine is an engine behind CRI seen as a runtime.
type Engine struct {
	options      Options
	connections  []*grpc.ClientConn
	runtime      cri.RuntimeServiceClient
	images       cri.ImageServiceClient
	version      *cri.VersionResponse
	machine      machine
	cgroupDriver string
	stopping     singleflight.Group // of sandboxes, by ID

	mu sync.Mutex
	// finished are containers that ended, by ID: they never change again.
	finished map[string]runtime.Container
	// sandboxes are what is known of sandboxes by ID: what they were made from, and their addresses once they run.
	sandboxes map[string]known
}

// known is what does not change about a sandbox.
type known struct {
	uid types.UID
	ips []string
}

var _ runtime.Engine = (*Engine)(nil)

// New connects to the engine and asks what it is.
func New(ctx context.Context, options Options) (*Engine, error) {
	e := &Engine{options: options, finished: map[string]runtime.Container{}, sandboxes: map[string]known{}}
	connection, err := e.connect(options.Endpoint)
	if err != nil {
		return nil, err
	}
	e.runtime, e.images = cri.NewRuntimeServiceClient(connection), cri.NewImageServiceClient(connection)
	if options.ImageEndpoint != "" && options.ImageEndpoint != options.Endpoint {
		images, err := e.connect(options.ImageEndpoint)
		if err != nil {
			_ = e.Close()
			return nil, err
		}
		e.images = cri.NewImageServiceClient(images)
	}
	if err := e.discover(ctx); err != nil {
		_ = e.Close()
		return nil, fmt.Errorf("ask the container engine at %s (does it run, and speak CRI v1?): %w", options.Endpoint, err)
	}
	return e, nil
}

// maxMessage is how long an answer of the engine may be, in bytes, as upstream's kubelet has it.
const maxMessage = 16 << 20

func (e *Engine) connect(endpoint string) (*grpc.ClientConn, error) {
	target, err := target(endpoint)
	if err != nil {
		return nil, err
	}
	connection, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)))
	if err != nil {
		return nil, fmt.Errorf("CRI endpoint %q: %w", endpoint, err)
	}
	e.connections = append(e.connections, connection)
	return connection, nil
}

// target checks an endpoint: the path of a socket, with or without its scheme.
func target(endpoint string) (string, error) {
	if strings.HasPrefix(endpoint, "/") {
		return "unix://" + endpoint, nil
	}
	parsed, err := url.Parse(endpoint)
	if err != nil {
		return "", fmt.Errorf("CRI endpoint %q: %w", endpoint, err)
	}
	if parsed.Scheme != "unix" || parsed.Host != "" || parsed.Path == "" {
		return "", fmt.Errorf("CRI endpoint %q: use a socket such as unix:///run/containerd/containerd.sock", endpoint)
	}
	return endpoint, nil
}

// CheckEndpoint tells what is wrong with an endpoint.
func CheckEndpoint(endpoint string) error {
	_, err := target(endpoint)
	return err
}

// Close ends the connections to the engine; containers go on.
func (e *Engine) Close() error {
	var first error
	for _, connection := range e.connections {
		if err := connection.Close(); err != nil && first == nil {
			first = err
		}
	}
	return first
}

func (e *Engine) discover(ctx context.Context) (err error) {
	ctx, cancel := bounded(ctx, 0)
	defer cancel()
	if e.version, err = e.runtime.Version(ctx, &cri.VersionRequest{}); err != nil {
		return err
	}
	e.cgroupDriver = e.options.CgroupDriver
	answer, err := e.runtime.RuntimeConfig(ctx, &cri.RuntimeConfigRequest{})
	switch {
	case status.Code(err) == codes.Unimplemented: // older engines don't tell
	case err != nil:
		return err
	case answer.GetLinux().GetCgroupDriver() == cri.CgroupDriver_CGROUPFS:
		e.cgroupDriver = "cgroupfs"
	default:
		e.cgroupDriver = "systemd"
	}
	e.machine, err = readMachine()
	return err
}

// Info implements runtime.Runtime. An engine that is not ready has no information.
func (e *Engine) Info(ctx context.Context) (_ runtime.Info, err error) {
	defer e.observe("status", &err)()
	ctx, cancel := bounded(ctx, 0)
	defer cancel()
	answer, err := e.runtime.Status(ctx, &cri.StatusRequest{})
	if err != nil {
		return runtime.Info{}, err
	}
	if err := condition(answer.GetStatus(), cri.RuntimeReady); err != nil {
		return runtime.Info{}, err
	}
	info := runtime.Info{
		Name: e.version.GetRuntimeName(), Version: e.version.GetRuntimeVersion(),
		KernelVersion: e.machine.kernel, OperatingSystem: e.machine.system, Architecture: e.machine.architecture,
		CPUs: e.machine.cpus, MemoryBytes: e.machine.memory,
		CgroupDriver: e.cgroupDriver, CgroupVersion: e.machine.cgroupVersion,
		Handlers:     handlers(answer.GetRuntimeHandlers()),
		StrictGroups: answer.GetFeatures().GetSupplementalGroupsPolicy(),
	}
	for _, handler := range info.Handlers {
		if handler.Name == "" {
			info.RecursiveReadOnly = handler.RecursiveReadOnly
		}
	}
	return info, nil
}

// handlers are what pods can choose by their RuntimeClass, and what each can do.
func handlers(told []*cri.RuntimeHandler) []runtime.Handler {
	var all []runtime.Handler
	for _, handler := range told {
		all = append(all, runtime.Handler{Name: handler.GetName(),
			RecursiveReadOnly: handler.GetFeatures().GetRecursiveReadOnlyMounts()})
	}
	return all
}

// condition tells why an engine does not meet a condition, or nil. One that says nothing of it meets it.
func condition(status *cri.RuntimeStatus, kind string) error {
	for _, c := range status.GetConditions() {
		if c.GetType() == kind && !c.GetStatus() {
			return fmt.Errorf("%s is false: %s: %s", kind, c.GetReason(), c.GetMessage())
		}
	}
	return nil
}

// observe begins an operation, and returns what tells of its end.
func (e *Engine) observe(operation string, err *error) func() {
	if e.options.Observe == nil {
		return func() {}
	}
	began := time.Now()
	return func() { e.options.Observe(operation, time.Since(began), *err) }
}

// requestTimeout bounds a request that the engine answers without waiting for a container or a registry, as
// --runtime-request-timeout of upstream's kubelet does.
const requestTimeout = 2 * time.Minute

// bounded ends with ctx, and after requestTimeout and what the request may take beyond it.
func bounded(ctx context.Context, beyond time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, requestTimeout+beyond)
}

// mark gives an engine's error the meaning that the runtime contract names.
func mark(err error) error {
	switch {
	case err == nil:
		return nil
	case status.Code(err) == codes.NotFound:
		return fmt.Errorf("%w: %s", runtime.ErrNotFound, status.Convert(err).Message())
	case status.Code(err) == codes.Canceled:
		return fmt.Errorf("%w: %s", context.Canceled, status.Convert(err).Message())
	case status.Code(err) == codes.DeadlineExceeded:
		return fmt.Errorf("%w: %s", context.DeadlineExceeded, status.Convert(err).Message())
	}
	if text, ok := status.FromError(err); ok {
		return fmt.Errorf("%s", text.Message()) // what users read in events has no words of the transport
	}
	return err
}
