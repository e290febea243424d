package docker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// sandboxOOMScore protects the sandbox: a pod must not lose its namespaces because one container ate the memory.
const sandboxOOMScore = -998

// CreateSandbox implements runtime.Runtime.
func (e *Engine) CreateSandbox(ctx context.Context, spec *runtime.SandboxSpec) (_ string, err error) {
	defer e.observe("run_podsandbox", &err)()
	host := &container.HostConfig{
		Runtime:     spec.Handler,
		IpcMode:     "shareable",
		NetworkMode: container.NetworkMode(e.options.Network),
		LogConfig:   container.LogConfig{Type: "json-file", Config: map[string]string{"max-size": "1m"}},
		Sysctls:     spec.Sysctls,
		SecurityOpt: []string{"no-new-privileges"},
		OomScoreAdj: e.oomScore(sandboxOOMScore),
		Resources:   container.Resources{CPUShares: 2, CgroupParent: spec.CgroupParent},
	}
	if spec.HostNetwork {
		host.NetworkMode, host.UTSMode = "host", "host"
	}
	if spec.HostPID {
		host.PidMode = "host"
	}
	if spec.HostIPC {
		host.IpcMode = "host"
	}
	return e.newSandbox(ctx, host, spec)
}

// newSandbox makes and starts a sandbox.
func (e *Engine) newSandbox(ctx context.Context, host *container.HostConfig,
	spec *runtime.SandboxSpec) (string, error) {
	labels := podLabels(spec.Pod, e.options.Node, e.options.Labels)
	for key, value := range spec.Labels {
		if _, ours := labels[key]; !ours {
			labels[key] = value
		}
	}
	labels[labelType] = typeSandbox
	labels[labelContainer] = "POD"
	labels[labelAttempt] = strconv.Itoa(spec.Attempt)
	config := &container.Config{Image: spec.Image, Labels: labels}
	ports := spec.Ports
	if spec.HostNetwork { // then the names and ports are the machine's
		ports = nil
	} else {
		config.Hostname, config.Domainname = spec.Hostname, spec.Domainname
		e.enableIPv6(host)
	}
	if err := setPorts(labels, ports); err != nil {
		return "", err
	}
	name := containerName(e.options.Node, spec.Pod, "POD", spec.Attempt)
	id, err := e.create(ctx, name, config, host)
	if errdefs.IsNotFound(err) { // the image is not there yet
		if _, pullErr := e.Pull(ctx, spec.Image, runtime.Credential{}); pullErr != nil {
			return "", fmt.Errorf("%w; %w", err, pullErr)
		}
		id, err = e.create(ctx, name, config, host)
	}
	if err != nil {
		return "", err
	}
	if spec.Created != nil {
		spec.Created(id)
	}
	return e.startSandbox(ctx, id, host, spec)
}

// startSandbox starts the sandbox. Where the machine forbids to protect a process from the OOM killer the engine
// fails without telling that reason, so it is tried once more without, and the lesson kept if that helps.
func (e *Engine) startSandbox(ctx context.Context, id string, host *container.HostConfig,
	spec *runtime.SandboxSpec) (string, error) {
	err := e.Start(ctx, id)
	if err == nil {
		return id, nil
	}
	if ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) {
		return "", err // given up: the engine may still start it, and the next observation of the pod finds it
	}
	if removeErr := e.Remove(context.WithoutCancel(ctx), id); removeErr != nil {
		return "", fmt.Errorf("%w (and remove it: %v)", err, removeErr)
	}
	if host.OomScoreAdj >= 0 {
		return "", err
	}
	again := *host
	again.OomScoreAdj = 0
	// Containers that are created while the sandbox starts must not request what it couldn't get.
	first := e.noNegativeOOM.CompareAndSwap(false, true)
	id, err = e.newSandbox(ctx, &again, spec)
	switch {
	case err == nil:
		e.noNegativeOOM.Store(true)
	case first:
		e.noNegativeOOM.Store(false) // that was not why
	}
	return id, err
}

func (e *Engine) oomScore(score int) int {
	if score < 0 && e.noNegativeOOM.Load() {
		return 0
	}
	return score
}

// create makes a container. A leftover of the same name, from a call whose answer was lost, is replaced.
func (e *Engine) create(ctx context.Context, name string, config *container.Config,
	host *container.HostConfig) (string, error) {
	ctx, cancel := bounded(ctx, 0)
	defer cancel()
	options := client.ContainerCreateOptions{Name: name, Config: config, HostConfig: host}
	created, err := e.api.ContainerCreate(ctx, options)
	if errdefs.IsConflict(err) && strings.Contains(err.Error(), "already in use") {
		left, inspectErr := e.api.ContainerInspect(ctx, name, client.ContainerInspectOptions{})
		if inspectErr == nil {
			if left.Container.State != nil && left.Container.State.Running {
				return "", fmt.Errorf("container %s runs already: %w", name, err)
			}
			if removeErr := e.Remove(ctx, left.Container.ID); removeErr != nil {
				return "", removeErr
			}
		}
		created, err = e.api.ContainerCreate(ctx, options)
	}
	if err != nil {
		return "", err
	}
	return created.ID, nil
}

// CreateContainer implements runtime.Runtime.
func (e *Engine) CreateContainer(ctx context.Context, spec *runtime.ContainerSpec) (_ string, err error) {
	defer e.observe("create_container", &err)()
	labels := podLabels(spec.Pod, e.options.Node, e.options.Labels)
	labels[labelType] = typeContainer
	labels[labelContainer] = spec.Name
	labels[labelSandbox] = spec.SandboxID
	labels[labelAttempt] = strconv.Itoa(spec.Attempt)
	labels[labelHash] = spec.Hash
	labels[labelMessageFile] = spec.MessageFile
	labels[labelMemoryRequest] = strconv.FormatInt(spec.MemoryRequest, 10)

	config := &container.Config{
		Image:       spec.ImageID,
		Entrypoint:  spec.Command,
		Cmd:         spec.Args,
		WorkingDir:  spec.WorkingDir,
		Env:         spec.Env,
		User:        spec.User,
		Labels:      labels,
		OpenStdin:   spec.Stdin,
		StdinOnce:   spec.StdinOnce,
		Tty:         spec.TTY,
		StopSignal:  spec.StopSignal,
		Healthcheck: &container.HealthConfig{Test: []string{"NONE"}}, // probes are the kubelet's
	}
	labels["io.quintet.image"] = spec.Image
	return e.create(ctx, containerName(e.options.Node, spec.Pod, spec.Name, spec.Attempt), config, e.hostConfig(spec))
}

func (e *Engine) hostConfig(spec *runtime.ContainerSpec) *container.HostConfig {
	sandbox := "container:" + spec.SandboxID
	host := &container.HostConfig{
		Runtime:        spec.Handler,
		NetworkMode:    container.NetworkMode(sandbox),
		IpcMode:        container.IpcMode(sandbox),
		Privileged:     spec.Privileged,
		ReadonlyRootfs: spec.ReadOnlyRoot,
		CapAdd:         spec.AddCaps,
		CapDrop:        spec.DropCaps,
		GroupAdd:       spec.Groups,
		SecurityOpt:    securityOptions(spec),
		OomScoreAdj:    e.oomScore(spec.OOMScoreAdjust),
		Mounts:         e.mounts(spec.Mounts),
		LogConfig: container.LogConfig{Type: "json-file", Config: map[string]string{
			"max-size": spec.LogMaxSize, "max-file": strconv.Itoa(spec.LogMaxFiles),
		}},
		Resources: container.Resources{
			CgroupParent: spec.CgroupParent,
			CPUShares:    spec.CPUShares,
			CPUQuota:     spec.CPUQuota,
			CPUPeriod:    spec.CPUPeriod,
			Memory:       spec.MemoryBytes,
		},
	}
	if spec.MemoryBytes > 0 && e.swap {
		host.MemorySwap = spec.MemoryBytes // memory and swap together: no swap
	}
	for _, d := range spec.Devices {
		permissions := "mrw"
		if d.ReadOnly {
			permissions = "mr"
		}
		if d.Permissions != "" {
			permissions = d.Permissions
		}
		host.Devices = append(host.Devices, container.DeviceMapping{
			PathOnHost: d.Source, PathInContainer: d.Target, CgroupPermissions: permissions,
		})
	}
	if len(spec.CDI) > 0 {
		host.DeviceRequests = []container.DeviceRequest{{Driver: cdiDriver, DeviceIDs: spec.CDI}}
	}
	if len(spec.DeviceAnnotations) > 0 {
		host.Annotations = spec.DeviceAnnotations
	}
	if spec.PidsLimit > 0 {
		host.PidsLimit = &spec.PidsLimit
	}
	switch {
	case spec.HostPID:
		host.PidMode = "host"
	case spec.TargetPID != "":
		host.PidMode = container.PidMode("container:" + spec.TargetPID)
	case spec.SharePID:
		host.PidMode = container.PidMode(sandbox)
	}
	if spec.HostNetwork {
		host.UTSMode = "host"
	}
	if spec.UnmaskedProc {
		host.MaskedPaths, host.ReadonlyPaths = []string{}, []string{}
	}
	return host
}

func securityOptions(spec *runtime.ContainerSpec) []string {
	var options []string
	if spec.NoNewPrivs {
		options = append(options, "no-new-privileges")
	}
	if spec.Seccomp != "" && !spec.Privileged {
		options = append(options, "seccomp="+spec.Seccomp)
	}
	if spec.AppArmor != "" {
		options = append(options, "apparmor="+spec.AppArmor)
	}
	for _, label := range spec.SELinux {
		options = append(options, "label="+label)
	}
	return options
}

func (e *Engine) mounts(wanted []runtime.Mount) []mount.Mount {
	mounts := make([]mount.Mount, 0, len(wanted))
	for _, m := range wanted {
		// Left to the engine it is private, except for what holds the engine's own files, which it can't share in any
		// way but its own.
		bind := &mount.BindOptions{Propagation: mount.Propagation(m.Propagation)}
		if m.ReadOnly && e.atLeast(44) {
			bind.ReadOnlyNonRecursive = !m.RecursiveReadOnly
			bind.ReadOnlyForceRecursive = m.RecursiveReadOnly
		}
		mounts = append(mounts, mount.Mount{
			Type: mount.TypeBind, Source: m.Source, Target: m.Target, ReadOnly: m.ReadOnly, BindOptions: bind,
		})
	}
	return mounts
}

// startGrace is what a start that is under way may take after its context ended.
const startGrace = 2 * time.Second

// Start implements runtime.Runtime. A start is completed even when ctx ends: the engine counts a start whose client
// went away as failed, and a container that failed to start may be its pod's end.
func (e *Engine) Start(ctx context.Context, id string) (err error) {
	defer e.observe("start_container", &err)()
	if err := ctx.Err(); err != nil {
		return err
	}
	begun, cancel := bounded(context.WithoutCancel(ctx), 0)
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		select {
		case <-begun.Done():
		case <-time.After(startGrace):
			cancel()
		}
	})()
	_, err = e.api.ContainerStart(begun, id, client.ContainerStartOptions{})
	return mark(err)
}

// Resize implements runtime.Runtime.
func (e *Engine) Resize(ctx context.Context, id string, r runtime.Resources) (err error) {
	defer e.observe("update_container_resources", &err)()
	ctx, cancel := bounded(ctx, 0)
	defer cancel()
	wanted := container.Resources{CPUShares: r.CPUShares, CPUQuota: r.CPUQuota, CPUPeriod: r.CPUPeriod,
		Memory: r.MemoryBytes}
	if r.MemoryBytes > 0 && e.swap {
		wanted.MemorySwap = r.MemoryBytes // as when it was made: no swap
	}
	_, err = e.api.ContainerUpdate(ctx, id, client.ContainerUpdateOptions{Resources: &wanted})
	e.drop(id)
	return mark(err)
}

// Stop implements runtime.Runtime.
func (e *Engine) Stop(ctx context.Context, id string, grace time.Duration) (err error) {
	defer e.observe("stop_container", &err)()
	ctx, cancel := bounded(ctx, max(0, grace))
	defer cancel()
	if grace <= 0 {
		_, err = e.api.ContainerKill(ctx, id, client.ContainerKillOptions{Signal: "KILL"})
	} else {
		seconds := int(math.Ceil(grace.Seconds()))
		_, err = e.api.ContainerStop(ctx, id, client.ContainerStopOptions{Timeout: &seconds})
	}
	if errdefs.IsNotFound(err) || errdefs.IsConflict(err) { // conflict: not running
		return nil
	}
	return err
}

// Remove implements runtime.Runtime.
func (e *Engine) Remove(ctx context.Context, id string) (err error) {
	defer e.observe("remove_container", &err)()
	ctx, cancel := bounded(ctx, 0)
	defer cancel()
	_, err = e.api.ContainerRemove(ctx, id, client.ContainerRemoveOptions{RemoveVolumes: true, Force: true})
	if errdefs.IsNotFound(err) || (errdefs.IsConflict(err) && strings.Contains(err.Error(), "already in progress")) {
		err = nil
	}
	if err == nil {
		e.drop(id)
	}
	return err
}

// mark gives an engine's error the meaning that the runtime contract names.
func mark(err error) error {
	if errdefs.IsNotFound(err) {
		return fmt.Errorf("%w: %w", runtime.ErrNotFound, err)
	}
	return err
}
