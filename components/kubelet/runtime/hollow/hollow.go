// Package hollow is a runtime that only pretends: containers start at once and run until they are stopped, or
// for as long as their pod's annotations say. A node costs a few kilobytes, so that one process holds thousands.
package hollow

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// Annotations of a pod that script its containers.
const (
	// RunFor is how long each container runs before it exits, a Go duration; unset is for ever.
	RunFor = "hollow.quintet.dev/run-for"
	// ExitCode is what containers that end by themselves exit with; unset is 0.
	ExitCode = "hollow.quintet.dev/exit-code"
	// CPU is how many cores each container uses while it runs, and Memory its working set in bytes, as quantities
	// greater than 0; unset is a little.
	CPU    = "hollow.quintet.dev/cpu"
	Memory = "hollow.quintet.dev/memory"
)

// Options describe the pretended machine.
type Options struct {
	Clock       clock.WithDelayedExecution
	CPUs        int
	MemoryBytes int64
}

// Engine is the pretended engine.
type Engine struct {
	options Options

	mu      sync.Mutex
	subnets []*subnet
	serial  int
	inUse   map[netip.Addr]bool
	pods    map[types.UID]*runtime.Pod
	owner   map[string]types.UID // of each sandbox and container
	scripts map[string]script
	timers  map[string]clock.Timer
	logs    map[string]string
	watches map[chan types.UID]*queue
	started time.Time
	removed time.Duration     // CPU time of containers that are no more
	pulled  map[string]string // references of images, by ID
	gone    map[string]bool   // IDs of images that were removed
}

type script struct {
	runFor time.Duration
	code   int
	load   load
}

var _ runtime.Engine = (*Engine)(nil)

// New makes an engine without containers.
func New(options Options) *Engine {
	return &Engine{
		options: options,
		inUse:   map[netip.Addr]bool{},
		pods:    map[types.UID]*runtime.Pod{},
		owner:   map[string]types.UID{},
		scripts: map[string]script{},
		timers:  map[string]clock.Timer{},
		logs:    map[string]string{},
		watches: map[chan types.UID]*queue{},
		started: options.Clock.Now(),
		pulled:  map[string]string{},
		gone:    map[string]bool{},
	}
}

// Info implements runtime.Runtime.
func (e *Engine) Info(context.Context) (runtime.Info, error) {
	return runtime.Info{
		Name: "hollow", Version: "1.0.0", KernelVersion: "0.0.0-hollow", OperatingSystem: "Hollow",
		Architecture: "amd64",
		CPUs:         e.options.CPUs, MemoryBytes: e.options.MemoryBytes, CgroupDriver: "cgroupfs", CgroupVersion: "2",
		RecursiveReadOnly: true,
		Simulated:         runtime.Simulated{Files: true, Processes: true, Network: true},
	}, nil
}

// Pods implements runtime.Runtime.
func (e *Engine) Pods(context.Context) ([]runtime.Pod, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	pods := make([]runtime.Pod, 0, len(e.pods))
	for _, pod := range e.pods {
		pods = append(pods, copyPod(pod))
	}
	return pods, nil
}

// Pod implements runtime.Runtime.
func (e *Engine) Pod(_ context.Context, uid types.UID) (runtime.Pod, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if pod := e.pods[uid]; pod != nil {
		return copyPod(pod), nil
	}
	return runtime.Pod{UID: uid}, nil
}

func copyPod(pod *runtime.Pod) runtime.Pod {
	result := *pod
	result.Sandboxes = slices.Clone(pod.Sandboxes)
	result.Containers = slices.Clone(pod.Containers)
	return result
}

// CreateSandbox implements runtime.Runtime.
func (e *Engine) CreateSandbox(_ context.Context, spec *runtime.SandboxSpec) (string, error) {
	id, err := e.newSandbox(spec)
	if err == nil && spec.Created != nil {
		spec.Created(id)
	}
	return id, err
}

func (e *Engine) newSandbox(spec *runtime.SandboxSpec) (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	sandbox := runtime.Sandbox{ID: e.newID(spec.Pod.UID), Attempt: spec.Attempt, State: runtime.Running,
		Created: e.options.Clock.Now()}
	if !spec.HostNetwork {
		ips, err := e.allocateAll()
		if err != nil {
			return "", err
		}
		sandbox.IPs, sandbox.Ports = ips, spec.Ports
	}
	pod := e.pod(spec.Pod)
	pod.Sandboxes = slices.Insert(pod.Sandboxes, 0, sandbox)
	e.notify(spec.Pod.UID)
	return sandbox.ID, nil
}

func (e *Engine) newID(uid types.UID) string {
	e.serial++
	id := fmt.Sprintf("%s-%064d", uid, e.serial)
	e.owner[id] = uid
	return id
}

func (e *Engine) pod(ref runtime.PodRef) *runtime.Pod {
	pod := e.pods[ref.UID]
	if pod == nil {
		pod = &runtime.Pod{UID: ref.UID, Namespace: ref.Namespace, Name: ref.Name}
		e.pods[ref.UID] = pod
	}
	return pod
}

// CreateContainer implements runtime.Runtime.
func (e *Engine) CreateContainer(_ context.Context, spec *runtime.ContainerSpec) (string, error) {
	run, err := scriptOf(spec.Annotations)
	if err != nil {
		return "", err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	id := e.newID(spec.Pod.UID)
	e.scripts[id] = run
	pod := e.pod(spec.Pod)
	pod.Containers = slices.Insert(pod.Containers, 0, runtime.Container{
		ID: id, Name: spec.Name, SandboxID: spec.SandboxID, Attempt: spec.Attempt, Image: spec.Image,
		ImageID: spec.ImageID,
		Hash:    spec.Hash, State: runtime.Created, Created: e.options.Clock.Now(), Resources: spec.Resources,
		MemoryRequest: spec.MemoryRequest, StopSignal: cmp.Or(spec.StopSignal, "SIGTERM"),
	})
	return id, nil
}

func scriptOf(annotations map[string]string) (script, error) {
	var s script
	var err error
	if text, ok := annotations[RunFor]; ok {
		if s.runFor, err = time.ParseDuration(text); err != nil || s.runFor <= 0 {
			return s, fmt.Errorf("annotation %s: %q is not a duration greater than 0", RunFor, text)
		}
	}
	if text, ok := annotations[ExitCode]; ok {
		if s.code, err = strconv.Atoi(text); err != nil {
			return s, fmt.Errorf("annotation %s: %q is not a number", ExitCode, text)
		}
	}
	s.load, err = loadOf(annotations)
	return s, err
}

// Start implements runtime.Runtime.
func (e *Engine) Start(_ context.Context, id string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.container(id)
	if c == nil {
		return fmt.Errorf("container %s: %w", id, runtime.ErrNotFound)
	}
	if c.State == runtime.Running {
		return nil
	}
	c.State, c.Started = runtime.Running, e.options.Clock.Now()
	e.logs[id] = fmt.Sprintf("%s: pretending to run %s\n", c.Name, c.Image)
	if run := e.scripts[id]; run.runFor > 0 {
		e.timers[id] = e.options.Clock.AfterFunc(run.runFor, func() { go e.exit(id, run.code) })
	}
	e.notify(e.owner[id])
	return nil
}

func (e *Engine) exit(id string, code int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.end(id, code)
}

// end marks a running container or sandbox as exited.
func (e *Engine) end(id string, code int) {
	if timer := e.timers[id]; timer != nil {
		timer.Stop()
		delete(e.timers, id)
	}
	if c := e.container(id); c != nil && c.State == runtime.Running {
		c.State, c.ExitCode, c.Finished = runtime.Exited, code, e.options.Clock.Now()
		e.notify(e.owner[id])
		return
	}
	if s := e.sandbox(id); s != nil && s.State == runtime.Running {
		e.release(s)
		s.State, s.IPs = runtime.Exited, nil
		e.notify(e.owner[id])
	}
}

func (e *Engine) container(id string) *runtime.Container {
	pod := e.pods[e.owner[id]]
	if pod == nil {
		return nil
	}
	for i := range pod.Containers {
		if pod.Containers[i].ID == id {
			return &pod.Containers[i]
		}
	}
	return nil
}

func (e *Engine) sandbox(id string) *runtime.Sandbox {
	pod := e.pods[e.owner[id]]
	if pod == nil {
		return nil
	}
	for i := range pod.Sandboxes {
		if pod.Sandboxes[i].ID == id {
			return &pod.Sandboxes[i]
		}
	}
	return nil
}

// Resize implements runtime.Runtime.
func (e *Engine) Resize(_ context.Context, id string, r runtime.Resources) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.container(id)
	if c == nil {
		return fmt.Errorf("container %s: %w", id, runtime.ErrNotFound)
	}
	c.Resources = runtime.Resources{
		CPUShares: cmp.Or(r.CPUShares, c.CPUShares), CPUQuota: cmp.Or(r.CPUQuota, c.CPUQuota),
		CPUPeriod: cmp.Or(r.CPUPeriod, c.CPUPeriod), MemoryBytes: cmp.Or(r.MemoryBytes, c.MemoryBytes),
	}
	return nil
}

// Stop implements runtime.Runtime. A pretended process obeys SIGTERM at once.
func (e *Engine) Stop(_ context.Context, id string, grace time.Duration) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	code := 143
	if grace <= 0 {
		code = 137
	}
	e.end(id, code)
	return nil
}

// Remove implements runtime.Runtime.
func (e *Engine) Remove(_ context.Context, id string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.end(id, 137)
	uid := e.owner[id]
	pod := e.pods[uid]
	if pod == nil {
		return nil
	}
	if c := e.container(id); c != nil {
		e.removed += e.cpuTime(c)
	}
	pod.Containers = slices.DeleteFunc(pod.Containers, func(c runtime.Container) bool { return c.ID == id })
	pod.Sandboxes = slices.DeleteFunc(pod.Sandboxes, func(s runtime.Sandbox) bool { return s.ID == id })
	delete(e.owner, id)
	delete(e.scripts, id)
	delete(e.logs, id)
	if len(pod.Containers) == 0 && len(pod.Sandboxes) == 0 {
		delete(e.pods, uid)
	}
	e.notify(uid)
	return nil
}
