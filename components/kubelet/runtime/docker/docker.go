// Package docker runs pods on a Docker engine, API 1.41 or later. A pod is a pause container that holds the
// namespaces, and its containers, which join them; labels tell which container is what, so that a kubelet
// that starts finds what an earlier one left.
package docker

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/moby/moby/client"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// Options say which engine to use, and how.
type Options struct {
	Endpoint string // such as unix:///var/run/docker.sock
	Node     string // containers are labelled with it: several nodes may share an engine
	Network  string // name of the pod network
	Bridge   string // name of its bridge on the machine; empty lets the engine choose
	// Labels are added to every container and network in addition to the kubelet's own.
	Labels map[string]string
	// PullProgressDeadline ends a pull that makes no progress for so long; 0 is never.
	PullProgressDeadline time.Duration
	// Observe, if set, is told of each operation, by the name that upstream's kubelet has for it.
	Observe func(operation string, took time.Duration, err error)
}

// Engine is a Docker engine seen as a runtime.
type Engine struct {
	options Options
	api     *client.Client
	info    runtime.Info
	swap    bool // the engine can limit swap
	version string
	root    string // the engine's directory, where images are

	// noNegativeOOM is learnt: the machine may lack the right to protect a process from the OOM killer.
	noNegativeOOM atomic.Bool

	mu sync.Mutex
	// inspected are containers as they were when the engine was asked for them last, by ID. One that runs or has ended
	// changes otherwise than to another state by Resize and with an event only, both of which drop it from here.
	inspected map[string]runtime.Container
	drops     int // an answer to a question from before the last drop may be out of date
	podCIDRs  []netip.Prefix
}

var _ runtime.Engine = (*Engine)(nil)

// New connects to the engine and asks what it can do.
func New(ctx context.Context, options Options) (*Engine, error) {
	api, err := client.New(client.WithHost(options.Endpoint), client.WithUserAgent("kubelet"))
	if err != nil {
		return nil, fmt.Errorf("docker endpoint %q: %w", options.Endpoint, err)
	}
	e := &Engine{options: options, api: api, inspected: map[string]runtime.Container{}}
	e.noNegativeOOM.Store(!mayProtect())
	if err := e.discover(ctx); err != nil {
		_ = api.Close()
		return nil, fmt.Errorf("ask the docker engine at %s (is it running?): %w", options.Endpoint, err)
	}
	return e, nil
}

// observe begins an operation, and returns what tells of its end.
func (e *Engine) observe(operation string, err *error) func() {
	if e.options.Observe == nil {
		return func() {}
	}
	began := time.Now()
	return func() { e.options.Observe(operation, time.Since(began), *err) }
}

// Close ends the connections to the engine; containers go on.
func (e *Engine) Close() error { return e.api.Close() }

func (e *Engine) discover(ctx context.Context) error {
	answer, err := e.api.Info(ctx, client.InfoOptions{})
	if err != nil {
		return err
	}
	info := answer.Info
	e.version = e.api.ClientVersion()
	e.swap, e.root = info.SwapLimit, info.DockerRootDir
	e.info = runtime.Info{
		Name:            "docker",
		Version:         info.ServerVersion,
		KernelVersion:   info.KernelVersion,
		OperatingSystem: info.OperatingSystem,
		Architecture:    goArch(info.Architecture),
		CPUs:            info.NCPU,
		MemoryBytes:     info.MemTotal,
		CgroupDriver:    info.CgroupDriver,
		CgroupVersion:   info.CgroupVersion,

		RecursiveReadOnly: e.atLeast(44) && setsMountsRecursively(info.KernelVersion),
	}
	for _, name := range append([]string{""}, slices.Sorted(maps.Keys(info.Runtimes))...) {
		e.info.Handlers = append(e.info.Handlers,
			runtime.Handler{Name: name, RecursiveReadOnly: e.info.RecursiveReadOnly})
	}
	return nil
}

// setsMountsRecursively tells whether a kernel of that version has mount_setattr(2), which Linux 5.12 brought.
func setsMountsRecursively(kernel string) bool {
	var major, minor int
	if _, err := fmt.Sscanf(kernel, "%d.%d", &major, &minor); err != nil {
		return false
	}
	return major > 5 || major == 5 && minor >= 12
}

// mayProtect tells whether this process, and so an engine in the same container, may protect processes from the OOM
// killer, which takes CAP_SYS_RESOURCE. Where that can't be read it is tried.
func mayProtect() bool {
	const sysResource = 24
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return true
	}
	_, rest, found := strings.Cut(string(data), "CapEff:")
	if !found {
		return true
	}
	line, _, _ := strings.Cut(rest, "\n")
	capabilities, err := strconv.ParseUint(strings.TrimSpace(line), 16, 64)
	return err != nil || capabilities&(1<<sysResource) != 0
}

func goArch(machine string) string {
	switch machine {
	case "x86_64":
		return "amd64"
	case "aarch64":
		return "arm64"
	default:
		return machine
	}
}

// Info implements runtime.Runtime.
func (e *Engine) Info(ctx context.Context) (_ runtime.Info, err error) {
	defer e.observe("status", &err)()
	if _, err := e.api.Ping(ctx, client.PingOptions{}); err != nil {
		return runtime.Info{}, err
	}
	return e.info, nil
}

// atLeast compares the negotiated API version, "1.NN".
func (e *Engine) atLeast(minor int) bool {
	var major, have int
	if _, err := fmt.Sscanf(strings.TrimSpace(e.version), "%d.%d", &major, &have); err != nil {
		return false
	}
	return major > 1 || have >= minor
}
